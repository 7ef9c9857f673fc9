"""Joins of each row of a table with the nearest rows of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from penstock.plan.nearest import NearestPlan
from penstock.plan.query import LEFT, RIGHT, JoinQuery

from ...emit.restore import Restorer
from ...rows.sides import filtered, read_side
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
        left, right = (
            filtered(one, read_side(query, one, self._tables[one.side]).timed)
            for one in query.sides
        )
        preserved = LEFT in query.kind.unmatched
        for low, high, (i, j) in NearestSearch(self.plan, left, right).pairs():
            if preserved:
                has_none = np.ones(high - low, bool)
                has_none[i - low] = False
                alone = np.flatnonzero(has_none) + low
                order = np.argsort(np.concatenate([i, alone]), kind="stable")
                i = np.concatenate([i, alone])[order]
                j = np.concatenate([j, np.full(len(alone), -1)])[order]
            self.rows += len(i)
            if len(i):
                # The right row of a row without one is the last entry here.
                rows = left.row[i], np.append(right.row, -1)[j]
                picked = {
                    side: self._restorer.picked(side, self._tables[side], row)
                    for side, row in zip((LEFT, RIGHT), rows, strict=True)
                }
                yield self._restorer.restore(picked)
