"""Device tasks of an order, and the pairs that they find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from ..device.base import AnyTask, Result, WindowBuffer
from ..device.cut import Piece
from ..device.search import AnySearch


@dataclass(frozen=True, eq=False)
class Pairs:
    """Tuples of a probe, and positions of its window, that match.

    Parameters
    ----------
    i, j : ndarray of int, shape (n,)
        Pair k joins tuple ``tuples[i[k]]`` and position ``first + j[k]``.
    tuples : ndarray of int, optional
        By default ``i`` has the tuples themselves.
    first : int
    """

    i: np.ndarray
    j: np.ndarray
    tuples: np.ndarray | None = None
    first: int = 0

    def __len__(self) -> int:
        return len(self.i)

    @property
    def stream(self) -> np.ndarray:
        """The tuple of each pair."""
        return self.i if self.tuples is None else self.tuples[self.i]

    @property
    def positions(self) -> np.ndarray:
        """The position of each pair."""
        return self.j.astype(np.int64) + self.first

    def pick(self, chosen: np.ndarray | slice) -> Pairs:
        """Return some of the pairs; a slice copies nothing."""
        return Pairs(self.i[chosen], self.j[chosen], self.tuples, self.first)


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Join the pairs of one or more tasks of one probe."""
    if len(parts) == 1:
        return parts[0]
    stream, positions = zip(*((part.stream, part.positions) for part in parts), strict=True)
    return Pairs(np.concatenate(stream), np.concatenate(positions))


#: Starts a task, as ``Kernel.submit`` does.
Submit = Callable[[WindowBuffer | None, AnyTask | AnySearch], Future[Result]]


@dataclass(eq=False)
class TaskPart:
    """A device task of an order, once it has been submitted.

    Parameters
    ----------
    piece : Piece
        Part of the order's piece.
    by : int
        Logical position that the task's positions count from.
    """

    piece: Piece
    by: int
    future: Future[Result]
