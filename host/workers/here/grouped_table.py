"""GROUP BY over a whole table, or over the rows that its look-up gives, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.plan.group_query import GroupQuery
from penstock.plan.window import FOREVER

from ...execute.trace import Trace
from ...join.lookup.lookup_join import RelationJoin
from ..driving import SOURCE
from ..states import TableState, table_limit
from ..table_groups import DealtTable
from .here_driver import HereDriver


class GroupedTable(DealtTable):
    """Groups of a table's rows.

    Parameters
    ----------
    query : GroupQuery
    schema : pyarrow.Schema
    batches : iterable of RecordBatch
        The rows, of that schema, in order.
    lookup : RelationJoin, optional
        Of ``query.lookup``, ordered.
    trace : Trace, optional
        Records when batches were folded.
    """

    def __init__(
        self,
        query: GroupQuery,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        *,
        lookup: RelationJoin | None = None,
        trace: Trace | None = None,
    ) -> None:
        trace = Trace() if trace is None else trace
        driver = HereDriver(query, schema, TableState, table_limit, trace, lookup)
        super().__init__(driver, driver.state.schema, [query.source.alias])
        self._batches, self._alias = batches, query.source.alias

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        driver, parent = self._driver, self._driver.parent
        for batch in self._batches:
            parent.push(SOURCE, self.rows_in, batch, 0)
            driver.step(lambda: True)
            self.arrived[self._alias] += batch.num_rows
        parent.promise(SOURCE, FOREVER)
        driver.step(lambda: True)
        yield from self._give()


def grouped_table(query: GroupQuery, table: pa.Table, trace: Trace | None = None) -> GroupedTable:
    """Prepare the groups of a table's rows."""
    needed = list(query.columns_of(query.source.side))
    if needed:  # a table without columns loses its number of rows
        table = table.select(needed)
    return GroupedTable(query, table.schema, table.to_batches(), trace=trace)
