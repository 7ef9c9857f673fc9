"""Base rows behind a run, which the output needs, found by position.

As in ``growing.py``, readers hold views, which never change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from . import gather
from .growing import Column
from .picked import Picked


@dataclass(frozen=True)
class BaseRows:
    """An immutable view of a run's base rows.

    Parameters
    ----------
    schema : Schema
    plain : dict of int to (ndarray, ndarray or None)
        By number of column: values as integers of :func:`.gather.word`, and where they are valid.
    batches : tuple of RecordBatch
        The other columns, one batch after the other.
    """

    schema: pa.Schema
    plain: dict[int, tuple[np.ndarray, np.ndarray | None]]
    batches: tuple[pa.RecordBatch, ...]

    def take(self, positions: np.ndarray) -> pa.RecordBatch:
        """The rows at these positions, in this order."""
        plain = {
            n: (gather.take_values(values, positions), None if valid is None else valid[positions])
            for n, (values, valid) in self.plain.items()
        }
        return self._batch(plain, _rows_at(self.batches, positions))

    def pick(self, positions: np.ndarray, first: int = 0) -> Picked:
        """The rows at these positions, which count from this one."""
        return Picked(self.take(positions + np.int64(first) if first else positions))

    def all(self) -> pa.RecordBatch:
        """All rows."""
        arrays = pa.concat_batches(self.batches).columns if self.batches else []
        return self._batch(self.plain, arrays)

    def _batch(
        self, plain: dict[int, tuple[np.ndarray, np.ndarray | None]], arrays: Iterable[pa.Array]
    ) -> pa.RecordBatch:
        remaining = iter(arrays)
        columns = [
            gather.array_of(field.type, *plain[n]) if n in plain else next(remaining)
            for n, field in enumerate(self.schema)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True)
class TableRows:
    """Base rows of a run that are rows of a table, which is not copied.

    ``row`` has the table's row for each position: int64 of shape (n,).
    """

    table: pa.Table
    row: np.ndarray

    def pick(self, positions: np.ndarray, first: int = 0) -> Picked:
        """The rows at these positions, which count from this one."""
        if len(positions) > gather.FEW and self._start is not None and self._start + first >= 0:
            return Picked(self.table, positions, first=self._start + first)
        if first:
            positions = positions + np.int64(first)
        if len(positions) <= gather.FEW:
            return Picked(self.table, self.row[positions])
        return Picked(self.table, gather.take_values(self._narrow, positions))

    @cached_property
    def _start(self) -> int | None:
        """The first row, if the others follow it in the table's order; else None."""
        row = self.row
        if int(row[-1]) - int(row[0]) != len(row) - 1 or np.any(row[1:] <= row[:-1]):
            return None
        return int(row[0])

    @cached_property
    def _narrow(self) -> np.ndarray:
        """The rows in 32 bits if they fit."""
        return self.row.astype(np.uint32) if self.table.num_rows < 1 << 32 else self.row


class RowStore:
    """Base rows behind a run, found by position; appending and dropping stay cheap.

    Parameters
    ----------
    schema : Schema
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        words = {n: gather.word(field.type) for n, field in enumerate(schema)}
        self._values = {n: Column(np.zeros(0, w)) for n, w in words.items() if w is not None}
        self._valid: dict[int, Column] = {}
        self._other_columns = [n for n, w in words.items() if w is None]
        self._parts: list[pa.RecordBatch] = []
        self._sizes: list[int] = []  # bytes of each part: asking a batch takes long

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows at the end."""
        if not batch.num_rows:
            return
        for n, column in self._values.items():
            array = batch.column(n)
            if array.null_count and n not in self._valid:
                self._valid[n] = Column(np.ones(column.count, bool))
            if n in self._valid:
                self._valid[n].append(array.is_valid().to_numpy(zero_copy_only=False))
            column.append(gather.values(array, column.values.dtype))
        if self._other_columns:
            self._append(batch.select(self._other_columns))

    def _append(self, batch: pa.RecordBatch) -> None:
        """Add a part; neighbours of similar size are joined, so that few parts remain."""
        self._parts.append(batch)
        self._sizes.append(batch.nbytes)
        while len(self._parts) > 1 and self._parts[-2].num_rows < 2 * self._parts[-1].num_rows:
            last = self._parts.pop()
            self._parts[-1] = pa.concat_batches([self._parts[-1], last])
            self._sizes.pop()
            self._sizes[-1] = self._parts[-1].nbytes

    def drop(self, count: int) -> None:
        """Forget the first rows."""
        for column in (*self._values.values(), *self._valid.values()):
            column.drop(count)
        while count and self._parts:
            first = self._parts[0]
            if first.num_rows > count:
                # A slice would keep the whole batch alive, so the remaining rows are copied.
                self._parts[0] = pa.concat_batches([first.slice(count), first.slice(0, 0)])
                self._sizes[0] = self._parts[0].nbytes
                return
            count -= first.num_rows
            self._parts.pop(0)
            self._sizes.pop(0)

    def view(self) -> BaseRows:
        valid = {n: column.values for n, column in self._valid.items()}
        plain = {n: (column.values, valid.get(n)) for n, column in self._values.items()}
        batches = tuple(self._parts)
        if self._other_columns and not batches:
            batches = (
                pa.RecordBatch.from_pylist(
                    [], self._schema.empty_table().select(self._other_columns).schema
                ),
            )
        return BaseRows(self._schema, plain, batches)

    @property
    def nbytes(self) -> int:
        columns = (*self._values.values(), *self._valid.values())
        return sum(self._sizes) + sum(column.nbytes for column in columns)


def _rows_at(parts: tuple[pa.RecordBatch, ...], positions: np.ndarray) -> list[pa.Array]:
    """Columns of the rows at these positions, which count from the first row of the first part."""
    if not parts:
        return []
    if len(parts) == 1 or not len(positions):
        return parts[0].take(pa.array(positions)).columns
    offsets = np.cumsum([0] + [p.num_rows for p in parts])
    part = np.searchsorted(offsets, positions, side="right") - 1
    pieces, where = [], []
    for index in np.unique(part):
        chosen = np.flatnonzero(part == index)
        local = positions[chosen].astype(np.int64) - offsets[index]
        pieces.append(parts[index].take(pa.array(local)))
        where.append(chosen)
    order = np.empty(len(positions), dtype=np.int64)
    order[np.concatenate(where)] = np.arange(len(positions))
    return pa.concat_batches(pieces).take(pa.array(order)).columns
