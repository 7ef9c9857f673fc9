"""Window runs: rows of one side in probing order, with their prepared keys.

Positions are logical: they count from the first row that the run ever had, so they stay valid while
rows are dropped at the front. A run is read by way of snapshots.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector

from ..keys.layouts import Layout
from ..rows.growing import Column, Keys
from ..rows.row_store import BaseRows, RowStore, TableRows
from ..rows.sides import concat, take

_numbers = itertools.count()


def next_number() -> int:
    """Return a number for a run, unique in this process."""
    return next(_numbers)


class Readable(Protocol):
    """A run as devices read it: columns by logical position."""

    @property
    def run(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...

    def columns(self, layout: Layout, low: int, high: int) -> list[np.ndarray]: ...


@dataclass(frozen=True)
class Snapshot:
    """A run as it was at one moment; it stays readable when the run changes.

    Parameters
    ----------
    run : int
        Number of the run, unique in this process.
    first : int
        Logical position of the first row that has not been dropped.
    times, ids : ndarray of int64, shape (n,)
        Event times, ascending for a time window; arrival numbers.
    keys : tuple of Vector, each of n values
    rows : BaseRows or TableRows
        Base rows; without columns if they are not needed.
    """

    run: int
    first: int
    times: np.ndarray
    ids: np.ndarray
    keys: tuple[Vector, ...]
    rows: BaseRows | TableRows

    @property
    def end(self) -> int:
        """Logical position after the last row."""
        return self.first + len(self.times)

    @property
    def nbytes(self) -> int:
        """Bytes of the keys."""
        valid = (v.valid.nbytes for v in self.keys if v.valid is not None)
        return sum(v.values.nbytes for v in self.keys) + sum(valid)

    def columns(self, layout: Layout, low: int, high: int) -> list[np.ndarray]:
        """Return device columns of logical positions ``[low, high)``."""
        return layout.window(self.keys_between(low, high))

    def keys_between(self, low: int, high: int) -> list[Vector]:
        """Return the keys of logical positions ``[low, high)``, with the whole run's bounds."""
        return self._keys(slice(low - self.first, high - self.first))

    def keys_at(self, positions: np.ndarray) -> list[Vector]:
        """Return the keys at logical positions, with the bounds of the whole run."""
        return self._keys(positions - self.first)

    def _keys(self, part: slice | np.ndarray) -> list[Vector]:
        return [v.at(part) for v in self.keys]


def still(
    times: np.ndarray,
    keys: Sequence[Vector],
    rows: TableRows | None = None,
    ids: np.ndarray | None = None,
) -> Snapshot:
    """Make a run that never changes, without a copy; arguments as for :class:`Snapshot`."""
    base = BaseRows(pa.schema([]), {}, ()) if rows is None else rows
    if ids is None:
        ids = np.broadcast_to(np.int64(-1), len(times))
    return Snapshot(next_number(), 0, times, ids, tuple(keys), base)


class WindowRun:
    """Rows of one side that later rows of the other side may meet.

    Parameters
    ----------
    times : ndarray of int64, shape (n,)
    keys : sequence of Vector
        From :func:`penstock.host.keys.prepare.window_keys`.
    rows : RecordBatch, optional
        Base rows, for the output; None if the caller keeps them itself.
    ids : ndarray of int64, shape (n,), optional
        Arrival numbers; None if the order of the output is free.
    """

    def __init__(
        self,
        times: np.ndarray,
        keys: Sequence[Vector],
        rows: pa.RecordBatch | None = None,
        ids: np.ndarray | None = None,
    ) -> None:
        self.number = next_number()
        self.first = 0
        self._times = Column(times)
        self._ids = Column(np.zeros(len(times), np.int64) if ids is None else ids)
        self._keys = [Keys(v) for v in keys]
        self._rows = RowStore(pa.schema([]) if rows is None else rows.schema)
        if rows is not None:
            self._rows.append(rows)

    @staticmethod
    def merged(runs: Sequence[WindowRun]) -> WindowRun:
        """Merge runs into one by time; rows of equal time keep the order of the runs."""
        parts = [run.snapshot() for run in runs]
        times = np.concatenate([p.times for p in parts])
        order = np.argsort(times, kind="stable")
        keys = [take(concat(same), order) for same in zip(*(p.keys for p in parts), strict=True)]
        base = pa.concat_batches([run._rows.view().all() for run in runs])
        ids = np.concatenate([p.ids for p in parts])
        return WindowRun(times[order], keys, base.take(pa.array(order)), ids[order])

    def __len__(self) -> int:
        return self._times.count

    @property
    def times(self) -> np.ndarray:
        return self._times.values

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory."""
        columns = (self._times, self._ids, *self._keys, self._rows)
        return sum(column.nbytes for column in columns)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.number,
            self.first,
            self._times.values,
            self._ids.values,
            tuple(k.vector() for k in self._keys),
            self._rows.view(),
        )

    def append(
        self,
        times: np.ndarray,
        keys: Sequence[Vector],
        rows: pa.RecordBatch,
        ids: np.ndarray | None = None,
    ) -> None:
        """Add rows at the end; arguments as for the class."""
        self._times.append(times)
        self._ids.append(np.zeros(len(times), np.int64) if ids is None else ids)
        for column, v in zip(self._keys, keys, strict=True):
            column.append(v)
        self._rows.append(rows)

    def drop(self, count: int) -> int:
        """Drop the first ``count`` rows once they are half of the run; return how many were
        dropped.

        Until then they take memory but cost no evaluation: no range reaches them.
        """
        if count < 1 or 2 * count < len(self):
            return 0
        self.first += count
        for column in (self._times, self._ids, *self._keys, self._rows):
            column.drop(count)
        return count
