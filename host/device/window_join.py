"""The second operation of the device contract: a ROWS window join of tuples in order of arrival.

Given tuples of sides A and B in order of arrival: on its arrival each tuple meets the latest
``rows`` tuples of the other side that arrived before; emit those pairs that meet the predicate,
each once. The first tuples may be history: they enter the windows and are not matched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from penstock.program import WindowProgram


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
        own = number[~is_b], number[is_b]

        def picked(
            sides: tuple[Sequence[np.ndarray], Sequence[np.ndarray]],
        ) -> tuple[list[np.ndarray], list[np.ndarray]]:
            a, b = ([column[n] for column in cs] for cs, n in zip(sides, own, strict=True))
            return a, b

        return Arrivals(is_b, picked(self.window), picked(self.stream))


@dataclass(frozen=True)
class WindowTask:
    """Tuples to match.

    Parameters
    ----------
    tuples : Arrivals
    history : int
        So many tuples at the start enter their windows and are not matched.
    rows : (int, int)
        Sizes of the windows over A and over B.
    room : int
        Most pairs the result may hold, at least ``WindowKernel.min_room(rows)``.
    """

    tuples: Arrivals
    history: int
    rows: tuple[int, int]
    room: int


@dataclass(frozen=True)
class WindowResult:
    """Pairs of a task, each once, in no particular order.

    Parameters
    ----------
    a, b : ndarray of uint32, shape (m,)
        Rows of A's and of B's columns.
    done : int
        Of the task's first ``done`` tuples all pairs are there, of later ones none. A task that
        ran out of room is resumed by one with the tuples from there on, behind a history.
    counters : mapping
        Exact counts of this task: ``evaluations`` always.
    """

    a: np.ndarray
    b: np.ndarray
    done: int
    counters: Mapping[str, int] = field(default_factory=dict)


class WindowKernel(ABC):
    """A predicate loaded into a window-join operator."""

    def __init__(self, program: WindowProgram) -> None:
        self.program = program

    @abstractmethod
    def min_room(self, rows: tuple[int, int]) -> int:
        """Smallest ``WindowTask.room`` that guarantees progress with these windows."""

    @abstractmethod
    def submit(self, task: WindowTask) -> Future[WindowResult]:
        """Start a task; several may be in flight. Failures arrive through the future."""

    def close(self) -> None:  # noqa: B027 - some hold nothing
        """Free what the kernel holds."""
