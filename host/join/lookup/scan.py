"""Joins batches of rows with all rows of a relation, page by page: conditions without its key."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.expr.columns import Columns
from penstock.plan.lookup import GROUP, LookupPlan

from ...device.base import Device
from ...execute.stats import Stats
from ...lookup.lookup import Counts
from ...lookup.memory import MemorySplit
from ...metrics import Latency
from ...relation.border import Relation, Version
from ...rows.columns import load
from .answer import Answer, Answering, in_group
from .join import LookupOptions, row_bytes
from .reach import Reach


@dataclass
class _Pass:
    """Rows that meet the relation now: their output, their numbers, the pages that are left."""

    rows: pa.Table
    answer: Answer
    ids: np.ndarray
    pages: np.ndarray


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
        self.counts = Counts()
        self.rows_in = self.batches_in = self.null_keys = 0
        self._latency = latency
        self._schema = schema
        names = plan.query.columns_of(plan.inner.side)
        # A query may need the relation's number of matches only; one column gives it.
        self._inner_columns = [c for c in names if c != GROUP] or relation.schema.names[:1]
        self._answering = Answering(
            plan,
            schema,
            pa.schema([relation.schema.field(name) for name in self._inner_columns]),
            devices,
            ordered=self.options.ordered,
            pruning=self.options.pruning,
        )
        self._batches: deque[pa.RecordBatch] = deque()
        self._pass: _Pass | None = None
        self._open(relation.version(self.options.version), goes_on=False)

    def _open(self, version: Version, *, goes_on: bool) -> None:
        width = row_bytes(self._schema)
        index = version.index
        self.split = MemorySplit.of(
            self.options.memory_bytes, index.memory_bytes, width, keeps_rows=False, goes_on=goes_on
        )
        self._room = self.split.rows_of(width)
        self._reach = Reach(self.plan, index)
        self.version = version

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._answering.schema

    @property
    def stats(self) -> Stats:
        """Counts of the devices' work."""
        return self._answering.stats

    @property
    def waiting(self) -> int:
        """Rows that wait for a pass over the relation, or for its end."""
        return sum(map(len, self._batches)) + (0 if self._pass is None else len(self._pass.ids))

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
            "waiting rows": sum(batch.nbytes for batch in self._batches)
            + (0 if self._pass is None else self._pass.rows.nbytes),
        }

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; gives the output of those that were answered meanwhile.

        All rows of the batch meet the same version of the relation.
        """
        if self.options.refresh:
            yield from self.meet(self.relation.newest())
        self._columns(batch)  # for its errors, before any row is taken
        self._batches.extend(batch.slice(k, self._room) for k in range(0, len(batch), self._room))
        self.batches_in += 1
        if self._latency is not None:
            ids = np.arange(self.rows_in, self.rows_in + batch.num_rows)
            self._latency.arrived(ids, time.monotonic())
        self.rows_in += batch.num_rows
        while self.waiting > self._room:
            yield from self._pass_over()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Answer all rows that wait."""
        while self.waiting:
            yield from self._pass_over()

    def end(self) -> Iterator[pa.RecordBatch]:
        """Answer all rows; give the groups that all rows of the stream make."""
        yield from self.finish()
        yield from self._answering.end()

    def use(self, devices: Sequence[Device]) -> None:
        """As for :class:`~.join.LookupJoin`."""
        self.devices = self._answering.devices = devices

    def partial(self) -> pa.Table:
        """As for :class:`~.join.LookupJoin`."""
        return self._answering.partial()

    def meet(self, number: int) -> Iterator[pa.RecordBatch]:
        """As for :class:`~.join.LookupJoin`."""
        if number != self.version.number:
            version = self.relation.version(number)
            yield from self.finish()
            self._open(version, goes_on=True)

    def _pass_over(self) -> Iterator[pa.RecordBatch]:
        """Let as many rows as have room meet the relation.

        A page that cannot be read, and a device that fails, leave the pass as it is, and the next
        call goes on with it.
        """
        now = self._pass = self._pass or self._begin()
        sizes = self.version.index.bytes
        while len(now.pages):
            fit = np.searchsorted(np.cumsum(sizes[now.pages]), self.split.pages, side="right")
            pages = now.pages[: max(1, fit)]
            batch = self.version.read(pages, self._inner_columns).batch
            self.counts.pages += len(pages)
            self.counts.page_bytes += int(sizes[pages].sum())
            self.counts.reads += 1
            try:
                part = in_group(batch, np.zeros(batch.num_rows, np.int64))
                made = list(now.answer.add(part))
            except PenstockError:
                if self.plan.query.aggregation is not None:
                    # What was folded of the part cannot be taken back.
                    self._pass = self._begin_with(now.rows, now.ids)
                raise
            now.pages = now.pages[len(pages) :]
            yield from made
        self._pass = None
        yield from now.answer.finish()
        if self._latency is not None:
            self._latency.left(now.ids, time.monotonic())

    def _begin(self) -> _Pass:
        taken: list[pa.RecordBatch] = []
        rows = 0
        while self._batches and (not rows or rows + len(self._batches[0]) <= self._room):
            taken.append(self._batches.popleft())
            rows += len(taken[-1])
        table = pa.Table.from_batches(taken)
        ids = np.arange(self.counts.rows, self.counts.rows + rows)
        self.counts.rows += rows
        return self._begin_with(table, ids)

    def _begin_with(self, rows: pa.Table, ids: np.ndarray) -> _Pass:
        pages = self._reach.pages(self._columns(rows), len(ids))
        answer = self._answering.begin(rows, ids, np.zeros(len(ids), np.int64))
        return _Pass(rows, answer, ids, pages)

    def _columns(self, rows: pa.Table | pa.RecordBatch) -> Columns:
        """The columns of the stream by which pages are found."""
        side = self.plan.outer
        loaded = load(rows, self._reach.columns, self.plan.query.scale_of(side.side), side.alias)
        return {(side.side, name): vector for name, vector in loaded.items()}
