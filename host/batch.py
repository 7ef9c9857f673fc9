"""A join of two whole tables: a bounded stream of result batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import DataError, DeviceError
from penstock.expr import build
from penstock.expr.columns import Vector, evaluate_columns
from penstock.host.columns import load
from penstock.host.device.base import Device
from penstock.host.device.run import run_task
from penstock.host.output import Restorer
from penstock.host.prepare import Columns, Layout, layout, stream_values, window_keys
from penstock.host.ranges import arrival_order, rows_ranges, time_ranges
from penstock.host.stats import Stats
from penstock.program import BandProgram
from penstock.query.plan import LEFT, RIGHT, JoinQuery, RowsWindow, Side, TimeWindow
from penstock.rewrite.forms import JoinForm, join_form

#: Pairs of one device result: 32 MiB of indices, many times what a task needs to be efficient.
ROOM = 1 << 22
#: Rows of one output batch.
BATCH_ROWS = 1 << 20


@dataclass(frozen=True)
class SideRows:
    """One input, filtered and in time order.

    Parameters
    ----------
    table : pyarrow.Table
        Base rows, unfiltered.
    row : ndarray of int64, shape (n,)
        Row of ``table`` that each tuple is.
    time : ndarray of int64, shape (n,)
        Ascending.
    columns : mapping of (side, name) to Vector
        Columns of the tuples that the predicate needs.
    """

    table: pa.Table
    row: np.ndarray
    time: np.ndarray
    columns: Columns


@dataclass(frozen=True)
class RangeJoin:
    """One direction of the join: stream tuples with ranges into the other side."""

    form: JoinForm
    start: np.ndarray
    end: np.ndarray

    @property
    def pairs(self) -> int:
        return int((self.end - self.start).sum())


class BatchJoin:
    """Joins two tables on a device; iterate to get the output.

    Parameters
    ----------
    query : JoinQuery
    tables : mapping of table name to pyarrow.Table
    device : Device
    band : bool
        False switches band form off, to compare with the general form.
    on_progress : callable, optional
        Called with (pairs evaluated, pairs in the window) after each device result.

    Raises
    ------
    DataError
        A time is NULL where the order of rows depends on it, or a value is off its declared grid.
    DeviceError
        The device cannot run the predicate.
    """

    def __init__(
        self,
        query: JoinQuery,
        tables: Mapping[str, pa.Table],
        device: Device,
        *,
        band: bool = True,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.query = query
        self.device = device
        self.stats = Stats(device.name)
        self.on_progress = on_progress
        self.sides = {s.side: side_rows(query, s, tables[s.table]) for s in query.sides}
        self.joins = _range_joins(query, self.sides, band)
        self.stats.pairs_in_window = sum(join.pairs for join in self.joins)
        schemas = {s.side: tables[s.table].schema for s in query.sides}
        self.restorer = Restorer(query, schemas)

    @property
    def schema(self) -> pa.Schema:
        return self.restorer.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for join in self.joins:
            if join.pairs:
                yield from self._run(join)
        self.stats.stop()

    def _run(self, join: RangeJoin) -> Iterator[pa.RecordBatch]:
        window_side = join.form.window
        stream_side = RIGHT if window_side == LEFT else LEFT
        window, stream = self.sides[window_side], self.sides[stream_side]
        prepared = window_keys(join.form, window.columns, len(window.row))
        made = layout(
            join.form,
            prepared,
            stream_values(join.form, stream.columns, len(stream.row)),
            self.device.key_widths,
        )
        kernel = open_kernel(self.device, made, join.form)
        buffer = kernel.allocate(len(window.row))
        buffer.write(0, made.window(prepared))
        keys = made.stream(stream.columns, len(stream.row))
        kept = np.flatnonzero(keys.possible)
        results = run_task(
            kernel,
            buffer,
            [a[kept] for a in keys.arrays],
            join.start[kept],
            join.end[kept],
            room=max(ROOM, kernel.min_room),
            lanes=self.device.lanes,
        )
        tables = {side: rows.table for side, rows in self.sides.items()}
        try:
            for result in results:
                self.stats.add(result.counters)
                if self.on_progress is not None:
                    self.on_progress(self.stats.pairs_evaluated, self.stats.pairs_in_window)
                pair = {
                    stream_side: stream.row[kept[result.i]],
                    window_side: window.row[result.j],
                }
                for at in range(0, len(result.i), BATCH_ROWS):
                    part = slice(at, at + BATCH_ROWS)
                    batch = self.restorer.restore(tables, pair[LEFT][part], pair[RIGHT][part])
                    self.stats.rows += batch.num_rows
                    yield batch
        finally:
            buffer.free()
            kernel.close()


def open_kernel(device: Device, made: Layout, form: JoinForm):
    """Load a program; a refusal says which form the predicate has."""
    reason = device.refuses(made.program)
    if reason is not None:
        shape = "band form" if isinstance(made.program, BandProgram) else "general form"
        why = f" ({form.why_general})" if form.why_general else ""
        raise DeviceError(f"device {device.name} cannot run this query: {reason} [{shape}{why}]")
    return device.open(made.program)


def side_rows(query: JoinQuery, side: Side, table: pa.Table) -> SideRows:
    """Filter one input and put it in time order.

    Rows of one time keep the order of the table. In a time window a row without a time can match
    nothing and is left out; for ROWS it would have no place in the order, which is an error.
    """
    names = query.columns_of(side.side)
    loaded = load(table, names, query.scale_of(side.side), side.alias)
    columns = {(side.side, name): v for name, v in loaded.items()}
    n = table.num_rows
    row = np.arange(n, dtype=np.int64)
    if side.filter is not build.TRUE:
        keep = evaluate_columns(side.filter, columns, n)
        row = np.flatnonzero(keep.values if keep.valid is None else keep.values & keep.valid)
    if side.time is None:
        raise DataError(
            f"ROWS of a table follow its time, and {side.alias} has no time column; name it with "
            f"time ({side.alias}=COLUMN)"
        )
    time = times_of(side, columns, n)
    if time.valid is not None:
        timed = time.valid[row]
        if isinstance(query.window, RowsWindow) and not timed.all():
            raise DataError(
                f"row {int(row[~timed][0])} of {side.alias} has no time, so it has no place among "
                f"the last ROWS; filter it with WHERE {side.alias}.<time> IS NOT NULL"
            )
        row = row[timed]
    times = time.values[row]
    if len(times) and np.any(times[1:] < times[:-1]):
        order = np.argsort(times, kind="stable")
        row, times = row[order], times[order]
    whole = len(row) == n and (n == 0 or bool(np.all(row[1:] > row[:-1])))
    picked = columns if whole else {key: take(v, row) for key, v in columns.items()}
    return SideRows(table, row, times, picked)


def times_of(side: Side, columns: Columns, rows: int) -> Vector:
    """Event times of one side as int64.

    Raises
    ------
    DataError
        A time does not fit 64 bits in the window's unit.
    """
    assert side.time is not None
    time = evaluate_columns(side.time, columns, rows)
    if time.values.dtype == object:
        raise DataError(
            f"a time of {side.alias} needs more than 64 bits in the unit of the window; use a "
            "coarser unit for both time columns"
        )
    return time


def take(v: Vector, row: np.ndarray) -> Vector:
    """The given rows of a vector; its bounds stay, and so stay true."""
    if v.values.dtype.kind in "iu":
        values = v.values[row]
        valid = None if v.valid is None else v.valid[row]
        if not values.size:
            return Vector(values, valid)
        return Vector(values, valid, int(values.min()), int(values.max()))
    return Vector(v.values[row], None if v.valid is None else v.valid[row], v.lo, v.hi)


def _range_joins(query: JoinQuery, sides: Mapping[str, SideRows], band: bool) -> list[RangeJoin]:
    left, right = sides[LEFT], sides[RIGHT]
    if isinstance(query.window, TimeWindow):
        window_side = choose_window_side(query, sides, band)
        form = join_form(query.predicate, window_side, band=band)
        low = None if query.window.before is None else -query.window.before
        high = query.window.after
        if window_side == RIGHT:
            ranges = time_ranges(left.time, right.time, low, high)
        else:
            ranges = time_ranges(
                right.time, left.time, *(None if b is None else -b for b in (high, low))
            )
        return [RangeJoin(form, *ranges)]
    before_left, before_right = arrival_order(left.time, right.time)
    return [
        RangeJoin(
            join_form(query.predicate, RIGHT, band=band),
            *rows_ranges(before_left, query.window.right),
        ),
        RangeJoin(
            join_form(query.predicate, LEFT, band=band),
            *rows_ranges(before_right, query.window.left),
        ),
    ]


def choose_window_side(query: JoinQuery, sides: Mapping[str, SideRows], band: bool) -> str:
    """The side that stays resident: the one with fewer tests per pair, then the larger one."""

    def cost(side: str) -> tuple[int, int, int]:
        form = join_form(query.predicate, side, band=band)
        tests = len(form.form.tests) if not form.why_general else 1 << 8
        return tests, -len(sides[side].row), 0 if side == RIGHT else 1

    return min((RIGHT, LEFT), key=cost)
