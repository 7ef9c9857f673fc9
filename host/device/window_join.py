"""The task of a window join: ROWS windows over tuples of two sides in order of arrival.

Given tuples of sides A and B in order of arrival: each tuple meets the latest ``rows`` tuples of
the other side that arrived before it; emit each pair that meets the predicate once. The first
tuples may be history: they enter the windows and are not matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Arrivals:
    """Tuples of both sides in order of arrival.

    Parameters
    ----------
    is_b : ndarray of bool, shape (n,)
        The side of each tuple. The k-th tuple of a side is row k of that side's columns.
    window : pair of sequences of ndarray
        Window keys of A's tuples, as ``WindowProgram.b`` has them, and of B's, as ``a`` has them.
    stream : pair of sequences of ndarray
        Stream keys of A's tuples, as ``WindowProgram.a`` has them, and of B's, as ``b`` has them.
    """

    is_b: np.ndarray
    window: tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
    stream: tuple[Sequence[np.ndarray], Sequence[np.ndarray]]

    def __len__(self) -> int:
        return len(self.is_b)

    @property
    def number(self) -> np.ndarray:
        """Row of each tuple in the columns of its side; int64, shape (n,)."""
        upto = np.cumsum(self.is_b)
        return np.where(self.is_b, upto - 1, np.arange(len(self)) - upto)

    def met(self, rows: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Rows ``[start, end)`` of the other side that each tuple meets.

        Parameters
        ----------
        rows : (int, int)
            Sizes of the windows over A and over B.
        """
        upto = np.cumsum(self.is_b)
        end = np.where(self.is_b, np.arange(1, len(self) + 1) - upto, upto)
        return np.maximum(end - np.where(self.is_b, *rows), 0), end

    def pick(self, chosen: np.ndarray) -> Arrivals:
        """Some of the tuples, by their places in ascending order."""
        is_b, number = self.is_b[chosen], self.number[chosen]
        numbers = number[~is_b], number[is_b]

        def picked(
            sides: tuple[Sequence[np.ndarray], Sequence[np.ndarray]],
        ) -> tuple[list[np.ndarray], list[np.ndarray]]:
            a, b = ([column[n] for column in cs] for cs, n in zip(sides, numbers, strict=True))
            return a, b

        return Arrivals(is_b, picked(self.window), picked(self.stream))


@dataclass(frozen=True)
class WindowTask:
    """A ROWS window join of some tuples: the task of a kernel of a ``WindowProgram``.

    Parameters
    ----------
    tuples : Arrivals
    history : int
        Number of tuples at the start that enter their windows and are not matched.
    room : int
        Most pairs the result may hold, at least ``Kernel.least_room(task)``; a task that needs
        more pauses between two tuples.
    """

    tuples: Arrivals
    history: int
    room: int

    @property
    def rows(self) -> int:
        """Tuples, the history included."""
        return len(self.tuples)

    def evaluations(self, rows: tuple[int, int], done: int | None = None) -> int:
        """Predicate tests of the task, or of its first ``done`` tuples, for these windows."""
        start, end = self.tuples.met(rows)
        return int((end - start)[self.history : done].sum())
