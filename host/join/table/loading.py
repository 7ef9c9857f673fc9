"""Reads and checks the tables of a join, and sorts them by time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.errors import DataError
from penstock.plan.plan import plan
from penstock.plan.query import LEFT, RIGHT, JoinQuery, Side
from penstock.plan.ranges import arrival_numbers
from penstock.words import many

from ...rows.row_store import TableRows
from ...rows.sides import Arrival, Loaded, SideRows, counting, read_side
from ...windows.feeds import Admission
from ...windows.places import ascending_places
from ...windows.run import Snapshot, still
from ...windows.source import Span, StreamSource, check_names


class Tables:
    """The rows of both sides of a query.

    Parameters
    ----------
    tables : mapping of table name to pyarrow.Table or Loaded
    disorder : int, timedelta, or mapping of alias to either, optional
        Disorder of a table's rows; unlimited by default.
    numbered : bool
        Whether tuples of both sides are numbered in one order of arrival: by time, at equal times
        left before right, then by row. By default each side is numbered by itself.

    Raises
    ------
    QueryError
        A ROWS window has no order of rows.
    DataError
        As for :func:`~penstock.host.rows.sides.read_side`, or a row lies further behind than
        ``disorder``.
    """

    def __init__(
        self,
        query: JoinQuery,
        tables: Mapping[str, pa.Table | Loaded],
        disorder: Span | Mapping[str, Span] | None = None,
        *,
        numbered: bool = False,
    ) -> None:
        self.numbered = numbered
        plan(query).require_order()
        check_names(disorder, query.sides)
        read = {s.side: loaded(query, s, tables[s.table], disorder) for s in query.sides}
        self.base = {side: one.table for side, one in read.items()}
        self.sides = {side: one.rows for side, one in read.items()}
        self.timeless = {side: one.timeless for side, one in read.items()}
        self.stretches = {side: one.stretches for side, one in read.items()}

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """Return the schemas of the tables, by side."""
        return {side: table.schema for side, table in self.base.items()}

    @cached_property
    def arrivals(self) -> dict[str, Arrival]:
        """Return each side's tuples in order of time, numbered by arrival or by place."""
        numbers = {side: counting(len(rows)) for side, rows in self.sides.items()}
        if self.numbered:
            times = self.sides[LEFT].time, self.sides[RIGHT].time
            left, right = arrival_numbers(*times, ascending_places)
            numbers = {LEFT: left, RIGHT: right}
        return {side: self._arrival(side, self.sides[side], ids) for side, ids in numbers.items()}

    @property
    def alone(self) -> tuple[Arrival, ...]:
        """Return the tuples without a time, which meet nothing."""
        return tuple(
            self._arrival(side, rows, np.full(len(rows), -1))
            for side, rows in self.timeless.items()
        )

    def window(self, side: str) -> Snapshot:
        """Return the tuples of a side as a run without keys."""
        rows = self.sides[side]
        return still(rows.time, (), TableRows(self.base[side], rows.row), self.arrivals[side].ids)

    def _arrival(self, side: str, rows: SideRows, ids: np.ndarray) -> Arrival:
        return Arrival(side, rows, self.base[side], ids, rows.row)


def loaded(
    query: JoinQuery,
    side: Side,
    table: pa.Table | Loaded,
    disorder: Span | Mapping[str, Span] | None = None,
) -> Loaded:
    """Read and check the rows of a table, unless that is done.

    Parameters
    ----------
    disorder : int, timedelta, or mapping of alias to either, optional
        As for :class:`Tables`.
    """
    if isinstance(table, Loaded):
        return table
    whole = table.combine_chunks()
    # Of a batch columns are read as they lie, of a table as copies.
    batches = whole.to_batches()
    read = read_side(query, side, batches[0] if len(batches) == 1 else whole)
    if disorder is not None:
        check_order(StreamSource(side, disorder), read.timed)
    return Loaded.of_table(side, whole, read)


def check_order(source: StreamSource, rows: SideRows) -> None:
    """Refuse a table whose rows are further out of order than declared.

    Raises
    ------
    DataError
    """
    admission = Admission(source.disorder)
    on_time = admission.admit(rows.time)
    if on_time.all():
        return
    first = int(np.argmin(on_time))
    behind = int(rows.time[:first].max()) - int(rows.time[first])
    raise DataError(
        f"{source.side.shown} has {many(admission.late, 'row')} further out of order than the "
        f"declared disorder of {admission.disorder}: row {int(rows.row[first])} is {behind} "
        "behind; raise disorder, or leave it out to sort the table"
    )
