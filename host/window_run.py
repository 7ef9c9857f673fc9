"""A resident window run: rows of one side in probing order, with their keys on the device.

Rows are appended at the end and dropped at the front. Keys are kept exactly and in the encoding of
the current layout; when later rows do not fit it, the run is laid out anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector
from penstock.host.device.base import Kernel, WindowBuffer
from penstock.host.prepare import Layout
from penstock.host.sides import concat, take

#: Rows a device buffer starts with; it doubles from there.
_LEAST_CAPACITY = 1024


class Rows:
    """Base rows behind a run, found by position; appending and dropping stay cheap."""

    def __init__(self) -> None:
        self.parts: list[pa.RecordBatch] = []

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows at the end; neighbours of like size are joined, so that few parts remain."""
        if not batch.num_rows:
            return
        self.parts.append(batch)
        while len(self.parts) > 1 and self.parts[-2].num_rows < 2 * self.parts[-1].num_rows:
            last = self.parts.pop()
            self.parts[-1] = pa.concat_batches([self.parts[-1], last])

    def drop(self, count: int) -> None:
        """Forget the first rows."""
        while count and self.parts:
            first = self.parts[0]
            if first.num_rows > count:
                # A slice would keep the whole batch alive, so the rest is copied.
                self.parts[0] = pa.concat_batches([first.slice(count), first.slice(0, 0)])
                return
            count -= first.num_rows
            self.parts.pop(0)

    def take(self, positions: np.ndarray) -> pa.RecordBatch:
        """The rows at these positions, in this order."""
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


class _Column:
    """An array that grows at the end in amortised constant time per value."""

    def __init__(self, values: np.ndarray) -> None:
        self.store = values.copy()
        self.count = len(values)

    @property
    def values(self) -> np.ndarray:
        return self.store[: self.count]

    def append(self, values: np.ndarray) -> None:
        total = self.count + len(values)
        dtype = np.result_type(self.store.dtype, values.dtype)
        if total > len(self.store) or dtype != self.store.dtype:
            grown = np.empty(max(total, 2 * self.count), dtype=dtype)
            grown[: self.count] = self.values
            self.store = grown
        self.store[self.count : total] = values
        self.count = total

    def drop(self, count: int) -> None:
        self.store = self.values[count:].copy()
        self.count = len(self.store)


class _Keys:
    """One prepared key of a run, see :class:`~penstock.expr.columns.Vector`."""

    def __init__(self, first: Vector) -> None:
        self.values = _Column(first.values)
        self.valid = None if first.valid is None else _Column(first.valid)
        self.bounds = (first.lo, first.hi)

    def append(self, v: Vector) -> None:
        if v.valid is not None and self.valid is None:
            self.valid = _Column(np.ones(self.values.count, dtype=bool))
        if self.valid is not None:
            mask = np.ones(len(v.values), dtype=bool) if v.valid is None else v.valid
            self.valid.append(mask)
        self.values.append(v.values)
        self.bounds = (min(self.bounds[0], v.lo), max(self.bounds[1], v.hi))

    def drop(self, count: int) -> None:
        self.values.drop(count)
        if self.valid is not None:
            self.valid.drop(count)

    def vector(self) -> Vector:
        valid = None if self.valid is None else self.valid.values
        return Vector(self.values.values, valid, *self.bounds)


class WindowRun:
    """Rows of one side that later rows of the other side may meet.

    Parameters
    ----------
    times : ndarray of int64, shape (n,)
    keys : sequence of Vector
        From :func:`penstock.host.prepare.window_keys`.
    rows : RecordBatch, optional
        Base rows, for the output; a caller that keeps them itself gives none.
    """

    def __init__(
        self, times: np.ndarray, keys: Sequence[Vector], rows: pa.RecordBatch | None = None
    ) -> None:
        self._times = _Column(times)
        self._keys = [_Keys(v) for v in keys]
        self.rows = Rows()
        if rows is not None:
            self.rows.append(rows)
        self.layout: Layout | None = None
        self.kernel: Kernel | None = None
        self.buffer: WindowBuffer | None = None

    @staticmethod
    def merged(runs: Sequence[WindowRun]) -> WindowRun:
        """One run of all rows by time; rows of one time keep the order of the runs."""
        times = np.concatenate([run.times for run in runs])
        order = np.argsort(times, kind="stable")
        keys = [take(concat(parts), order) for parts in zip(*(r.keys for r in runs), strict=True)]
        base = pa.concat_batches([part for run in runs for part in run.rows.parts])
        for run in runs:
            run.unload()
        return WindowRun(times[order], keys, base.take(pa.array(order)))

    def __len__(self) -> int:
        return self._times.count

    @property
    def times(self) -> np.ndarray:
        return self._times.values

    @property
    def keys(self) -> list[Vector]:
        return [k.vector() for k in self._keys]

    def append(self, times: np.ndarray, keys: Sequence[Vector], rows: pa.RecordBatch) -> None:
        """Add rows at the end; arguments as for the class."""
        start = len(self)
        self._times.append(times)
        for own, v in zip(self._keys, keys, strict=True):
            own.append(v)
        self.rows.append(rows)
        if self.layout is None or self.buffer is None:
            return
        if self.buffer.capacity < len(self) or not self.layout.covers(keys):
            self.unload()
        else:
            self.buffer.write(start, self.layout.window(keys))

    def load(self, layout: Layout, kernel: Kernel) -> WindowBuffer:
        """Put the keys on the device in a (new) layout."""
        self.unload()
        capacity = max(_LEAST_CAPACITY, 1 << (len(self) * 5 // 4).bit_length())
        self.buffer = kernel.allocate(capacity)
        self.buffer.write(0, layout.window(self.keys))
        self.layout, self.kernel = layout, kernel
        return self.buffer

    def unload(self) -> None:
        """Free the device buffer; the keys stay here."""
        if self.buffer is not None:
            self.buffer.free()
        self.layout = self.kernel = self.buffer = None

    def drop(self, count: int) -> int:
        """Forget the first rows, once they are at least half of the run; how many went.

        Until then they cost memory but no evaluation: no range reaches them any more.
        """
        if count < 1 or 2 * count < len(self):
            return 0
        self._times.drop(count)
        for own in self._keys:
            own.drop(count)
        self.rows.drop(count)
        self.unload()
        return count
