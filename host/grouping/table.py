"""GROUP BY over a whole table, or over the rows that its look-up gives."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.plan.group_query import GroupQuery

from ..execute.trace import Trace
from ..join.lookup.lookup_join import RelationJoin
from ..metrics import Report
from .folding import GroupFolding
from .report import report_of


class GroupedTable:
    """Groups of a table's rows; iterate to fold the rows and get the groups.

    Parameters
    ----------
    query : GroupQuery
    schema : pyarrow.Schema
    batches : iterable of RecordBatch
        The rows, of that schema, in order.
    lookup : RelationJoin, optional
        Of ``query.lookup``, ordered.

    Attributes
    ----------
    rows_in, rows_out : int
        Rows folded so far, and groups given.
    folding : GroupFolding
    trace : Trace
        When batches were folded.
    """

    def __init__(
        self,
        query: GroupQuery,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        *,
        lookup: RelationJoin | None = None,
    ) -> None:
        self._batches, self._alias = batches, query.source.alias
        self.folding = GroupFolding(query, schema, lookup)
        self.rows_in = self.rows_out = 0
        self.trace = Trace()
        self._report = self._made_report()

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self.folding.schema

    @property
    def timeless(self) -> int:
        """Rows without an event time, which are in no window."""
        return self.folding.timeless

    @property
    def filtered(self) -> int:
        """Rows that did not pass WHERE."""
        return self.folding.filtered

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            began = time.monotonic()
            self.folding.fold(batch)
            self.trace.add("groups", "fold", began, time.monotonic(), rows=batch.num_rows)
            self.rows_in += batch.num_rows
            self._report = self._made_report()
        for groups in self.folding.finish():
            self.rows_out += groups.num_rows
            self._report = self._made_report()
            yield groups

    def report(self) -> Report:
        """Return counts and state after the last batch, from any thread."""
        return self._report

    def _made_report(self) -> Report:
        return report_of(
            self.folding,
            self.rows_out,
            arrived={self._alias: self.rows_in},
            late={self._alias: 0},
            memory_bytes={"groups": self.folding.nbytes},
        )


def grouped_table(
    query: GroupQuery, table: pa.Table, lookup: RelationJoin | None = None
) -> GroupedTable:
    """Prepare the groups of a table, or of the rows that its look-up gives.

    Parameters
    ----------
    lookup : RelationJoin, optional
        Of ``query.lookup``, ordered.
    """
    needed = list(query.columns_of(query.source.side)) if lookup is None else table.schema.names
    if needed:  # a table without columns loses its number of rows
        table = table.select(needed)
    return GroupedTable(query, table.schema, table.to_batches(), lookup=lookup)
