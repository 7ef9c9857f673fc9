"""Joins of each row of a table with the nearest rows of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from penstock.plan.nearest import NearestPlan
from penstock.plan.query import LEFT, RIGHT, JoinQuery

from ...emit.restore import Restorer
from ...rows.picked import Nobody, Picked
from ...rows.sides import SideRows, counting, filtered, side_columns
from .nearest_search import NearestSearch


class NearestJoin:
    """Joins the rows of a table with those nearest to them; iterate to get the output.

    Rows leave in the order of the left table, those of one row by nearness, then by place.

    Parameters
    ----------
    query : JoinQuery
        With :attr:`~penstock.plan.query.JoinQuery.nearest`.
    tables : mapping of table name to pyarrow.Table

    Raises
    ------
    DataError
        A value is off its declared grid.
    """

    def __init__(self, query: JoinQuery, tables: Mapping[str, pa.Table]) -> None:
        self.plan = NearestPlan(query)
        self._tables = {one.side: tables[one.table].combine_chunks() for one in query.sides}
        schemas = {side: table.schema for side, table in self._tables.items()}
        self._restorer = Restorer(query, schemas)
        #: Rows of the output so far.
        self.rows = 0

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._restorer.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        query = self.plan.query
        left, right = (filtered(one, self._read(one.side)) for one in query.sides)
        preserved = LEFT in query.kind.unmatched
        for low, high, (i, j) in NearestSearch(self.plan, left, right).pairs():
            if preserved:
                number = np.bincount(i - low, minlength=high - low)
                rows = np.maximum(number, 1)
                near, j = j, np.full(rows.sum(), -1)
                j[np.repeat(number > 0, rows)] = near
                i = np.repeat(np.arange(low, high), rows)
            self.rows += len(i)
            if len(i):
                near = self._rows_of(RIGHT, right, j)
                yield self._restorer.restore({LEFT: self._left(left, i), RIGHT: near})

    def _read(self, side: str) -> SideRows:
        """All rows of a table; they need no times."""
        query, table = self.plan.query, self._tables[side]
        rows, names = counting(table.num_rows), query.join_columns_of(side)
        return SideRows(rows, rows, side_columns(query, side, table, names))

    def _left(self, left: SideRows, i: np.ndarray) -> Picked | Nobody:
        """Pick rows of the left table; those that lie one after the other are not copied."""
        is_run = self.plan.nearest.count == 1 and i[-1] - i[0] == len(i) - 1
        if not is_run or len(left) < self._tables[LEFT].num_rows:
            return self._rows_of(LEFT, left, i)
        return Picked(self._tables[LEFT].slice(i[0], len(i)))

    def _rows_of(self, side: str, of_side: SideRows, rows: np.ndarray) -> Picked | Nobody:
        base = self._tables[side]
        if len(of_side) < base.num_rows:
            # The row of a row without one is the last entry here.
            rows = np.append(of_side.row, -1)[rows]
        return self._restorer.picked(side, base, rows)
