"""Storage of a window run: grows at the end, forgets at the front, and is read while it does.

Readers hold views. A view stays what it was: appending writes beyond it or into new memory, and
dropping moves what is left to new memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector

#: What an array grows by when it is full, as a factor: memory that is not in use yet counts, too.
GROWTH = 1.25


class Column:
    """An array that grows at the end in amortised constant time per value.

    Parameters
    ----------
    values : ndarray, shape (n,)
    """

    def __init__(self, values: np.ndarray) -> None:
        self._store = values.copy()
        self.count = len(values)

    @property
    def values(self) -> np.ndarray:
        return self._store[: self.count]

    def append(self, values: np.ndarray) -> None:
        total = self.count + len(values)
        dtype = np.result_type(self._store.dtype, values.dtype)
        if total > len(self._store) or dtype != self._store.dtype:
            grown = np.empty(max(total, int(GROWTH * self.count)), dtype=dtype)
            grown[: self.count] = self.values
            self._store = grown
        self._store[self.count : total] = values
        self.count = total

    def drop(self, count: int) -> None:
        """Forget the first values."""
        self._store = self.values[count:].copy()
        self.count = len(self._store)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, at most: an array that is about to grow counts as grown."""
        return int(GROWTH * self.count) * self._store.itemsize


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
            mask = np.ones(len(v.values), dtype=bool) if v.valid is None else v.valid
            self._valid.append(mask)
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


@dataclass(frozen=True)
class RowsView:
    """Base rows of a run as they were.

    Parameters
    ----------
    parts : tuple of RecordBatch
        One after the other; positions count from the first row of the first part.
    """

    parts: tuple[pa.RecordBatch, ...]

    def take(self, positions: np.ndarray) -> pa.RecordBatch:
        """The rows at these positions, in this order."""
        if not len(positions):
            return self.parts[0].slice(0, 0)
        if len(self.parts) == 1:
            return self.parts[0].take(pa.array(positions))
        offsets = np.cumsum([0] + [p.num_rows for p in self.parts])
        part = np.searchsorted(offsets, positions, side="right") - 1
        pieces, where = [], []
        for index in np.unique(part):
            chosen = np.flatnonzero(part == index)
            local = positions[chosen].astype(np.int64) - offsets[index]
            pieces.append(self.parts[index].take(pa.array(local)))
            where.append(chosen)
        order = np.empty(len(positions), dtype=np.int64)
        order[np.concatenate(where)] = np.arange(len(positions))
        return pa.concat_batches(pieces).take(pa.array(order))


class Rows:
    """Base rows behind a run, found by position; appending and dropping stay cheap."""

    def __init__(self, parts: Sequence[pa.RecordBatch] = ()) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._sizes: list[int] = []  # bytes of each part: asking a batch takes long
        for part in parts:
            self.append(part)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows at the end; neighbours of like size are joined, so that few parts remain."""
        if not batch.num_rows:
            return
        self._parts.append(batch)
        self._sizes.append(batch.nbytes)
        while len(self._parts) > 1 and self._parts[-2].num_rows < 2 * self._parts[-1].num_rows:
            last = self._parts.pop()
            self._parts[-1] = pa.concat_batches([self._parts[-1], last])
            self._sizes.pop()
            self._sizes[-1] = self._parts[-1].nbytes

    def drop(self, count: int) -> None:
        """Forget the first rows."""
        while count and self._parts:
            first = self._parts[0]
            if first.num_rows > count:
                # A slice would keep the whole batch alive, so the rest is copied.
                self._parts[0] = pa.concat_batches([first.slice(count), first.slice(0, 0)])
                self._sizes[0] = self._parts[0].nbytes
                return
            count -= first.num_rows
            self._parts.pop(0)
            self._sizes.pop(0)

    def view(self) -> RowsView:
        return RowsView(tuple(self._parts))

    @property
    def nbytes(self) -> int:
        return sum(self._sizes)
