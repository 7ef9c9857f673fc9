"""One input of a join: its columns, filter and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from weakref import ref

import numpy as np
import pyarrow as pa

from penstock.errors import DataError
from penstock.expr import ops
from penstock.expr.columns import Columns, Vector, evaluate_columns, int_vector
from penstock.plan.group_query import GroupQuery
from penstock.plan.query import JoinQuery, Side
from penstock.plan.ranges import place

from .columns import load
from .gather import take_batch
from .picked import Picked
from .stretches import NamedBlock, Stretch

_longest: list[ref[np.ndarray]] = []


def counting(count: int) -> np.ndarray:
    """Return ``0 .. count - 1`` as read-only int64; arrays that are in use share their memory."""
    held = _longest[0]() if _longest else None
    if held is None or len(held) < count:
        held = np.arange(count, dtype=np.int64)
        held.flags.writeable = False
        _longest[:] = [ref(held)]
    return held[:count]


def _is_counting(rows: np.ndarray) -> bool:
    """Whether rows are known to be ``0 .. n - 1``: all that :func:`counting` gave."""
    held = _longest[0]() if _longest else None
    is_part = held is not None and rows.base is held and rows.strides == held.strides
    return is_part and len(rows) > 0 and int(rows[0]) == 0


@dataclass(frozen=True)
class SideRows:
    """Rows of one input.

    Parameters
    ----------
    row : ndarray of int64, shape (n,)
        Each tuple's row in the base table or batch.
    time : ndarray of int64, shape (n,)
        Zeros for a side without a time column.
    columns : mapping of (side, name) to Vector
        Columns of the tuples.
    """

    row: np.ndarray
    time: np.ndarray
    columns: Columns

    def __len__(self) -> int:
        return len(self.row)

    def pick(self, chosen: np.ndarray | slice) -> SideRows:
        """Some of the tuples, by index; a slice copies nothing."""
        picked = {key: take(v, chosen) for key, v in self.columns.items()}
        return SideRows(self.row[chosen], self.time[chosen], picked)

    def moved(self, by: int) -> SideRows:
        """The same tuples, with rows counted from this many rows earlier in a longer table."""
        return replace(self, row=self.row + by)

    def in_time_order(self) -> SideRows:
        """Return the tuples by time; tuples with equal times keep their order."""
        if len(self) == 0 or np.all(self.time[1:] >= self.time[:-1]):
            return self
        return self.pick(np.argsort(self.time, kind="stable"))

    @staticmethod
    def concat(parts: Sequence[SideRows]) -> SideRows:
        """The tuples of several parts of one side, in order."""
        first = parts[0]
        if len(parts) == 1:
            return first
        joined = {key: concat([p.columns[key] for p in parts]) for key in first.columns}
        return SideRows(
            np.concatenate([p.row for p in parts]),
            np.concatenate([p.time for p in parts]),
            joined,
        )


@dataclass(frozen=True)
class Arrival:
    """Tuples of one side, and their base rows for the output.

    Parameters
    ----------
    side : str
    rows : SideRows
    base : RecordBatch or Table
    ids : ndarray of int64, shape (n,)
        Arrival numbers.
    row : ndarray of int64, shape (n,), optional
        Each tuple's row in ``base``; by default tuple k is row k.
    """

    side: str
    rows: SideRows
    base: pa.RecordBatch | pa.Table
    ids: np.ndarray
    row: np.ndarray | None = None

    def at(self, tuples: np.ndarray) -> np.ndarray:
        """Rows of some tuples in ``base``."""
        return tuples if self.row is None or _is_counting(self.row) else self.row[tuples]

    def picked(self, tuples: np.ndarray, index: np.ndarray | None = None) -> Picked:
        """Base rows of some tuples; of those at each index, if one is given."""
        rows = self.at(tuples)
        return Picked(self.base, rows) if index is None else Picked(self.base, index, rows)

    @staticmethod
    def of_batch(query: JoinQuery, side: str, rows: SideRows, batch: pa.RecordBatch) -> Arrival:
        """Make an arrival of tuples; their ``row`` points into ``batch``."""
        kept = batch.select(list(query.output_columns_of(side)))
        if kept.num_columns == 0:  # a batch without columns loses its number of rows
            kept = pa.record_batch([pa.nulls(batch.num_rows)], names=["no column"])
        unnumbered = np.full(len(rows), -1, np.int64)
        # Rows are picked in order, so if their number is the batch's, they are all of it.
        base = kept if len(rows) == batch.num_rows else take_batch(kept, rows.row)
        return Arrival(side, rows, base, unnumbered)

    def numbered(self, ids: np.ndarray) -> Arrival:
        """The same tuples with these arrival numbers."""
        return replace(self, ids=ids)

    def pick(self, chosen: np.ndarray | slice) -> Arrival:
        """Some of the tuples, by index."""
        rows, ids = self.rows.pick(chosen), self.ids[chosen]
        if self.row is not None:
            return Arrival(self.side, rows, self.base, ids, self.row[chosen])
        base = take_batch(self.base, np.arange(len(self.ids))[chosen])
        return Arrival(self.side, rows, base, ids)

    def in_time_order(self) -> Arrival:
        """Return the tuples by time; tuples with equal times keep their order."""
        time = self.rows.time
        if len(time) == 0 or np.all(time[1:] >= time[:-1]):
            return self
        return self.pick(np.argsort(time, kind="stable"))

    @staticmethod
    def concat(parts: Sequence[Arrival]) -> Arrival:
        if len(parts) == 1:
            return parts[0]
        rows = SideRows.concat([p.rows for p in parts])
        base = pa.concat_batches([p.base for p in parts])
        return Arrival(parts[0].side, rows, base, np.concatenate([p.ids for p in parts]))


@dataclass(frozen=True)
class Read:
    """Unfiltered rows of a table or batch: those with an event time, and timeless ones.

    A row without a time meets nothing, but an outer join preserves it.
    """

    timed: SideRows
    timeless: SideRows


def side_columns(
    query: JoinQuery | GroupQuery,
    side: str,
    table: pa.Table | pa.RecordBatch,
    names: Iterable[str],
) -> Columns:
    """Some columns of a side's rows, under the names that expressions have for them.

    Raises
    ------
    SchemaError
        A column is missing.
    DataError
        A value is off its declared grid.
    """
    loaded = load(table, names, query.scale_of(side), query.side(side).alias)
    return {(side, name): vector for name, vector in loaded.items()}


def read_side(query: JoinQuery, side: Side, table: pa.Table | pa.RecordBatch) -> Read:
    """All rows of a table or batch.

    Raises
    ------
    SchemaError
        A column is missing.
    DataError
        A value is off its declared grid, a time needs more than 64 bits, or ROWS would have to
        order a row without a time.
    """
    columns = side_columns(query, side.side, table, query.join_columns_of(side.side))
    n = table.num_rows
    everything = counting(n)
    none = np.zeros(0, dtype=np.int64)
    if side.time is None:
        rows = SideRows(everything, np.zeros(n, dtype=np.int64), columns)
        return Read(rows, rows.pick(none))
    time = evaluate_columns(side.time, columns, n)
    if time.values.dtype == object:
        raise DataError(
            f"a time of {side.shown} needs more than 64 bits in the unit of the window; use a "
            "coarser unit for both time columns"
        )
    rows = SideRows(everything, time.values, columns)
    if time.valid is None:
        return Read(rows, rows.pick(none))
    timeless = rows.pick(np.flatnonzero(~time.valid))
    if query.is_rows and len(placeless := filtered(side, timeless)):
        raise DataError(
            f"row {int(placeless.row[0])} of {side.alias} has no time, so it has no place "
            "among the last ROWS; leave such rows out with WHERE or a subquery in FROM"
        )
    return Read(rows.pick(np.flatnonzero(time.valid)), timeless)


@dataclass(frozen=True)
class Loaded:
    """Rows of one input of a join of whole tables.

    Parameters
    ----------
    table : pyarrow.Table
        Each column is one chunk: finding the chunk of each row would cost more.
    rows : SideRows
        Tuples that pass the side's filter, in the order of time; ``row`` points into ``table``.
    timeless : SideRows
        Tuples that pass the filter and have no event time.
    stretches : tuple of Stretch
        Rows of the table that belong to blocks.
    """

    table: pa.Table
    rows: SideRows
    timeless: SideRows
    stretches: tuple[Stretch, ...] = ()

    @staticmethod
    def of_table(side: Side, table: pa.Table, read: Read) -> Loaded:
        """Make it of a table with one chunk per column, and of the rows read from it."""
        timed = filtered(side, read.timed).in_time_order()
        return Loaded(table, timed, filtered(side, read.timeless))

    def pick(self, chosen: np.ndarray | slice) -> Loaded:
        """Some of the tuples with an event time, by index in the order of time."""
        return replace(self, rows=self.rows.pick(chosen), timeless=self.timeless.pick(slice(0)))

    def between(self, low: int, high: int) -> Loaded:
        """The tuples with ``low <= time <= high``."""
        time = self.rows.time
        return self.pick(slice(place(time, low), place(time, high, after=True)))

    @staticmethod
    def of_block(block: NamedBlock, table: pa.Table, low: int, high: int) -> Loaded:
        """The tuples of a block with ``low <= time <= high``.

        Parameters
        ----------
        block : NamedBlock
            Row k of the block is row k of the table.
        table : pyarrow.Table
        low, high : int
        """
        time = block.rows.time
        first = place(time, low)
        last = max(first, place(time, high, after=True))
        rows, none = block.rows, block.rows.pick(slice(0))
        if last - first < len(rows):
            rows = rows.pick(slice(first, last)).moved(-first)
            table = table.slice(first, last - first)
        return Loaded(table, rows, none, (Stretch(block, first, 0, last - first),))

    def unnamed(self) -> Loaded:
        """The same tuples without their blocks."""
        return replace(self, stretches=())

    @staticmethod
    def concat(parts: Sequence[Loaded]) -> Loaded:
        """Join the tuples of parts of one side; at equal times, earlier parts come first."""
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([part.table.num_rows for part in parts])
        first = [0, *ends[:-1].tolist()]
        rows, timeless = (
            SideRows.concat([some.moved(by) for some, by in zip(both, first, strict=True)])
            for both in zip(*((part.rows, part.timeless) for part in parts), strict=True)
        )
        table = pa.concat_tables([part.table for part in parts]).combine_chunks()
        stretches = [
            stretch.moved(by)
            for part, by in zip(parts, first, strict=True)
            for stretch in part.stretches
        ]
        return Loaded(table, rows.in_time_order(), timeless, tuple(stretches))


def filtered(side: Side, rows: SideRows) -> SideRows:
    """The tuples that pass the side's filter."""
    if side.filter is ops.TRUE:
        return rows
    keep = evaluate_columns(side.filter, rows.columns, len(rows))
    return rows.pick(
        np.flatnonzero(keep.values if keep.valid is None else keep.values & keep.valid)
    )


def take(v: Vector, row: np.ndarray | slice) -> Vector:
    """Some rows of a vector, with their own bounds."""
    some = v.at(row)
    return int_vector(some.values, some.valid) if some.values.dtype.kind in "iu" else some


def concat(parts: Sequence[Vector]) -> Vector:
    """Vectors of one column, one after the other."""
    values = np.concatenate([p.values for p in parts])
    valid = None
    if any(p.valid is not None for p in parts):
        valid = np.concatenate([p.is_known for p in parts])
    return Vector(values, valid, min(p.lo for p in parts), max(p.hi for p in parts))
