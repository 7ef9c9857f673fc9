"""Joins batches of rows with all rows of a relation, page by page: conditions without its key."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.plan.lookup import GROUP, LookupPlan

from ...device.base import Device
from ...execute.stats import Stats
from ...lookup.lookup import Counts
from ...lookup.memory import MemorySplit
from ...metrics import Latency
from ...relation.border import Relation, Version
from ...rows.columns import load
from .answer import Answering, in_group
from .join import LookupOptions, row_bytes
from .reach import Reach


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
        self.rows_in = self.null_keys = 0
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
        self._batches: list[pa.RecordBatch] = []
        self._waiting = 0
        self._open(relation.version(), goes_on=False)

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
            self._open(self.relation.version(newest), goes_on=True)
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
        group = np.zeros(rows.num_rows, np.int64)
        yield from self._answering.answer(rows, ids, group, self._pages(rows))
        if self._latency is not None:
            self._latency.left(ids, time.monotonic())

    def _ids(self, rows: int) -> np.ndarray:
        return np.arange(self.rows_in, self.rows_in + rows)

    def end(self) -> Iterator[pa.RecordBatch]:
        """Answer all rows; give the groups that all rows of the stream make."""
        yield from self.finish()
        yield from self._answering.end()

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
            batch = self.version.read(now, self._inner_columns).batch
            yield in_group(batch, np.zeros(batch.num_rows, np.int64))
