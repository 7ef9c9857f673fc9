"""Storage of a window run: grows at the end and shrinks at the front while it is read.

Readers hold views, which never change: appending writes beyond them or into new memory, and
dropping leaves the remaining values in place, or moves them to new memory.
"""

from __future__ import annotations

import itertools

import numpy as np

from penstock.expr.columns import Vector

#: Factor by which a full array grows: unused memory counts, too.
LEAST_GROWTH, GROWTH = 1.25, 1.5
#: Where between the two.
_phases = itertools.cycle(phase / 8 for phase in (0, 5, 2, 7, 4, 1, 6, 3))


class Column:
    """An array that grows at the end in amortised constant time per value.

    Parameters
    ----------
    values : ndarray, shape (n,)
    """

    def __init__(self, values: np.ndarray) -> None:
        self._store = values.copy()
        self._first = 0
        self.count = len(values)
        # Columns of one run are full at different moments: no batch waits until all have moved.
        self._growth = LEAST_GROWTH + (GROWTH - LEAST_GROWTH) * next(_phases)

    @property
    def values(self) -> np.ndarray:
        return self._store[self._first : self._first + self.count]

    def append(self, values: np.ndarray) -> None:
        end = self._first + self.count
        dtype = np.result_type(self._store.dtype, values.dtype)
        if end + len(values) > len(self._store) or dtype != self._store.dtype:
            self._move(int(self._growth * (self.count + len(values))), dtype)
            end = self.count
        self._store[end : end + len(values)] = values
        self.count += len(values)

    def drop(self, count: int) -> None:
        """Forget the first values."""
        self._first += count
        self.count -= count
        if len(self._store) > GROWTH * 2 * self.count:
            self._move(int(self._growth * self.count), self._store.dtype)

    def _move(self, capacity: int, dtype: np.dtype) -> None:
        moved = np.empty(capacity, dtype=dtype)
        moved[: self.count] = self.values
        self._store, self._first = moved, 0

    @property
    def nbytes(self) -> int:
        """Upper bound of the bytes of memory: an array that is about to grow counts as grown."""
        return max(len(self._store), int(GROWTH * self.count)) * self._store.itemsize


class Keys:
    """One prepared key of a run, see :class:`~penstock.expr.columns.Vector`."""

    def __init__(self, first: Vector) -> None:
        self._values = Column(first.values)
        self._valid = None if first.valid is None else Column(first.valid)
        self._bounds = (first.lo, first.hi)

    def append(self, v: Vector) -> None:
        if v.valid is not None and self._valid is None:
            self._valid = Column(np.ones(self._values.count, dtype=bool))
        if self._valid is not None:
            self._valid.append(v.is_known)
        self._values.append(v.values)
        self._bounds = (min(self._bounds[0], v.lo), max(self._bounds[1], v.hi))

    def drop(self, count: int) -> None:
        """Forget the first values; the bounds stay."""
        self._values.drop(count)
        if self._valid is not None:
            self._valid.drop(count)

    def vector(self) -> Vector:
        valid = None if self._valid is None else self._valid.values
        return Vector(self._values.values, valid, *self._bounds)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + (0 if self._valid is None else self._valid.nbytes)
