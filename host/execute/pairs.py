"""Pairs as a device wrote them: their tuples and positions are looked up only when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
