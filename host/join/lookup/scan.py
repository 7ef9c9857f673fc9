"""Joins batches of rows with all rows of a relation, page by page: conditions without its key."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.errors import OverloadError
from penstock.expr import ops
from penstock.expr.node import PRESENT, Expr, Op, transform
from penstock.plan.lookup import GROUP, LookupPlan
from penstock.plan.query import JoinKind, JoinQuery
from penstock.types import int_of

from ...device.base import Device
from ...execute.running import Running
from ...execute.stats import Stats
from ...lookup.lookup import Counts
from ...lookup.memory import MemorySplit
from ...metrics import Latency
from ...relation.border import Relation, Version
from ...rows.columns import load
from ..table.table_join import TableJoin
from .join import LookupOptions, row_bytes
from .reach import Reach

#: Hidden columns with the number of a row of the stream, and of one of the relation.
NUMBER, _INNER_NUMBER = "\0number", "\0row"

_GROUP = pa.field(GROUP, pa.int64(), nullable=False)


class ScanJoin:
    """Joins the rows of a stream with those of a relation, on any condition.

    Waiting rows meet the pages that may hold a match, a few pages at a time, as tasks of the
    device. A row that is preserved, or tested for a match, is decided after the last page.

    Parameters
    ----------
    plan, schema, relation, devices, options, latency
        As for :class:`~.join.LookupJoin`.

    Raises
    ------
    UsageError
        The memory is too small.
    """

    def __init__(
        self,
        plan: LookupPlan,
        schema: pa.Schema,
        relation: Relation,
        devices: Sequence[Device],
        options: LookupOptions | None = None,
        *,
        latency: Latency | None = None,
    ) -> None:
        self.plan, self.relation, self.devices = plan, relation, devices
        self.options = options or LookupOptions()
        self.stats = Stats("+".join(one.name for one in devices))
        self.counts = Counts()
        self.rows_in = self.null_keys = 0
        self._latency = latency
        self._schema = schema
        names = plan.query.columns_of(plan.inner.side)
        # A query may need the relation's number of matches only; one column gives it.
        self._inner_columns = [c for c in names if c != GROUP] or relation.schema.names[:1]
        self._per_page, self._alone = _per_page(plan), _alone(plan)
        self._batches: list[pa.RecordBatch] = []
        self._waiting = 0
        self._open(relation.version())

    def _open(self, version: Version) -> None:
        width = row_bytes(self._schema)
        index = version.index
        self.split = MemorySplit.of(
            self.options.memory_bytes, index.memory_bytes, width, keeps_rows=False
        )
        self._room = self.split.rows_of(width)
        self._reach = Reach(self.plan, index)
        self.version = version

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._join(self.plan.query, self._schema.empty_table(), self._no_rows()).schema

    @property
    def waiting(self) -> int:
        """Rows that wait for a pass over the relation."""
        return self._waiting

    @property
    def cached(self) -> int:
        """Keys whose rows are kept: none."""
        return 0

    def memory_bytes(self) -> dict[str, int]:
        """Main memory by purpose."""
        return {
            "index": self.split.index,
            "pages": self.split.pages,
            "kept rows": 0,
            "waiting rows": sum(batch.nbytes for batch in self._batches),
        }

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; gives the output of those that were answered meanwhile.

        All rows of the batch meet the same version of the relation.
        """
        newest = self.relation.newest() if self.options.refresh else self.version.number
        if newest != self.version.number:
            yield from self.finish()
            self._open(self.relation.version(newest))
        for start in range(0, batch.num_rows, self._room):
            part = batch.slice(start, self._room)
            if self._waiting + part.num_rows > self._room:
                yield from self.finish()
            self._batches.append(part)
            self._waiting += part.num_rows
            if self._latency is not None:
                self._latency.arrived(self._ids(part.num_rows), time.monotonic())
            self.rows_in += part.num_rows

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Answer all rows that wait."""
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._batches)
        ids = np.arange(self.rows_in - rows.num_rows, self.rows_in)
        self._batches, self._waiting = [], 0
        self.counts.rows += rows.num_rows
        given = self._answer(rows)
        if self.options.ordered and self.plan.query.aggregation is None:
            given = _sorted(given)
        for batch in given:
            shown = batch.drop_columns([NUMBER]) if NUMBER in batch.schema.names else batch
            self.stats.rows += shown.num_rows
            yield shown
        if self._latency is not None:
            self._latency.left(ids, time.monotonic())

    def _ids(self, rows: int) -> np.ndarray:
        return np.arange(self.rows_in, self.rows_in + rows)

    # -- a pass -----------------------------------------------------------------------------------

    def _answer(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """The output of some rows, with their numbers but for aggregates."""
        kind = self.plan.query.kind
        number = pa.array(np.arange(rows.num_rows))
        rows = rows.append_column(pa.field(NUMBER, pa.int64(), nullable=False), number)
        if self.plan.query.aggregation is not None:
            yield from self._join(self.plan.query, rows, self._matched_rows(rows))
            return
        matched = np.zeros(rows.num_rows, bool)
        for page_rows in self._pages(rows):
            left = rows
            if kind.is_existence:  # who has found a match needs no other
                left = rows.filter(pa.array(~matched))
            for batch in self._join(self._per_page, left, page_rows):
                found = batch.column(NUMBER)
                matched[found.to_numpy()] = True
                if not kind.is_existence:
                    yield batch
        if kind is not JoinKind.INNER:
            decided = rows.filter(pa.array(matched if kind is JoinKind.SEMI else ~matched))
            for batch in self._join(self._alone, decided, self._no_rows()):
                yield batch

    def _matched_rows(self, rows: pa.Table) -> pa.RecordBatch:
        """The relation's rows that match at least one of some rows."""
        kept, size = [self._no_rows()], 0
        for page_rows in self._pages(rows):
            numbered = page_rows.append_column(
                pa.field(_INNER_NUMBER, pa.int64(), nullable=False),
                pa.array(np.arange(page_rows.num_rows)),
            )
            join = self._join(self._per_page, rows, numbered)
            found = [batch.column(_INNER_NUMBER).to_numpy() for batch in join]
            if found:
                matched = np.unique(np.concatenate(found))
                kept.append(page_rows.take(pa.array(matched)))
                size += kept[-1].nbytes
            if size > self.split.rows:
                raise OverloadError(
                    f"the rows of {self.plan.inner.alias} that match {rows.num_rows:,} rows of "
                    f"{self.plan.outer.alias} take {size:,} bytes, more than memory_bytes leaves "
                    "for them; raise memory_bytes, or push fewer rows at a time"
                )
        return pa.concat_batches(kept)

    def _pages(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows of the pages that may hold a match, as many at a time as fit into memory."""
        side = self.plan.outer
        loaded = load(rows, self._reach.columns, self.plan.query.scale_of(side.side), side.alias)
        columns = {(side.side, name): vector for name, vector in loaded.items()}
        pages, sizes = self._reach.pages(columns, rows.num_rows), self.version.index.bytes
        while len(pages):
            fit = np.searchsorted(np.cumsum(sizes[pages]), self.split.pages, side="right")
            now, pages = pages[: max(1, fit)], pages[max(1, fit) :]
            self.counts.pages += len(now)
            self.counts.page_bytes += int(sizes[now].sum())
            self.counts.reads += 1
            yield self.version.read(now, self._inner_columns).batch

    def _join(
        self, query: JoinQuery, rows: pa.Table, candidates: pa.Table | pa.RecordBatch
    ) -> TableJoin:
        """Join rows with rows of the relation, all of which may meet."""
        plan, tables = self.plan, {}
        for name, given in ((plan.outer.table, rows), (plan.inner.table, candidates)):
            table = given if isinstance(given, pa.Table) else pa.Table.from_batches([given])
            group = pa.array(np.zeros(table.num_rows, np.int64))
            tables[name] = table.append_column(_GROUP, group)
        return TableJoin(
            query, tables, self.devices, pruning=self.options.pruning, running=Running()
        )

    def _no_rows(self) -> pa.RecordBatch:
        schema = pa.schema([self.relation.schema.field(name) for name in self._inner_columns])
        return pa.RecordBatch.from_pylist([], schema)


def _per_page(plan: LookupPlan) -> JoinQuery:
    """The query for some of the relation's pages: which rows match, with their numbers."""
    query = plan.query
    number = (NUMBER, _column(plan.outer.side, NUMBER))
    if query.aggregation is not None:
        row = (_INNER_NUMBER, _column(plan.inner.side, _INNER_NUMBER))
        return replace(query, aggregation=None, select=(number, row))
    if query.kind.is_existence:
        return replace(query, kind=JoinKind.SEMI, select=(number,))
    select = tuple((name, transform(expr, _present)) for name, expr in query.select)
    return replace(query, kind=JoinKind.INNER, select=(*select, number))


def _alone(plan: LookupPlan) -> JoinQuery:
    """The query for rows that are decided, joined with no row of the relation."""
    query = plan.query
    kind = JoinKind.ANTI if query.kind.is_existence else query.kind
    number = (NUMBER, _column(plan.outer.side, NUMBER))
    return replace(query, kind=kind, select=(*query.select, number))


def _column(side: str, name: str) -> Expr:
    return ops.column(side, name, int_of(64, nullable=False))


def _present(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    """Of a pair, both sides have a row."""
    if expr.op is Op.COLUMN:
        return ops.TRUE if expr.attr[1] is PRESENT else expr
    return ops.remake(expr, args)


def _sorted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches by the number of their row of the stream."""
    found = list(batches)
    if found:
        yield from pa.Table.from_batches(found).sort_by(NUMBER).to_batches()
