"""Joins batches of rows with all rows of a relation: conditions without its key.

A relation that fits is read once, and kept with the orders in which it is searched until another
version is met; a larger one is read page by page, for as many rows as have room.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.errors import FileError, PenstockError
from penstock.expr.columns import Columns

from ...lookup.lookup import Counts
from ...lookup.memory import KEPT, split_of
from ...lookup.model import ANSWERED
from ...lookup.pages import fitting
from ...relation.border import Version
from ...rows.columns import load
from ...rows.sides import Loaded
from .answer import Answer, in_group
from .lookup_join import RelationJoin, kept_row_bytes
from .reach import Reach

_log = logging.getLogger("penstock.relation")

#: Times that a pass begins anew after its state was lost.
_RESTARTS = 8


@dataclass
class _Pass:
    """Rows that meet the relation now: their output, their numbers, the pages that are left.

    Of a state that may be lost, output is held until the pass is over: what was joined with it
    must not leave with what is joined with another one.
    """

    rows: pa.Table
    answer: Answer
    ids: np.ndarray
    pages: np.ndarray
    held: list[pa.RecordBatch] = field(default_factory=list)
    losses: int | None = None
    restarts: int = 0


class ScanJoin(RelationJoin):
    """Finds the rows of a relation by searching all of them.

    Waiting rows meet the pages that may hold a match, a few pages at a time, as tasks of the
    device. A row that is preserved, or tested for a match, is decided after the last page. Once
    passes would have read as many pages as there are, the relation is kept, if it fits.
    """

    def _start(self) -> None:
        self._counts = Counts()
        self._batches: deque[pa.RecordBatch] = deque()
        self._pass: _Pass | None = None

    def _open(self, version: Version, *, goes_on: bool) -> None:
        width = self._row_bytes
        self.split = split_of(
            version,
            self.options.memory_bytes,
            width,
            None,
            goes_on=goes_on,
            kept_row_bytes=kept_row_bytes(self.plan, self.relation),
        )
        self._may_keep = self.split.cache > 0
        room = self.split.rows_of(width)
        # Passes are cheap once the relation is kept; short ones hold less output.
        self._room = min(room, ANSWERED) if self._may_keep else room
        self._answering.cache.close()
        self._kept: Loaded | None = None
        #: Pages of this version that were read.
        self._seen = 0
        self._reach = Reach(self.plan, version.scanned)
        self.version = version

    @property
    def counts(self) -> Counts:
        return self._counts

    @property
    def waiting(self) -> int:
        return sum(map(len, self._batches)) + (0 if self._pass is None else len(self._pass.ids))

    @property
    def cached(self) -> int:
        return 0

    @property
    def _kept_bytes(self) -> int:
        return 0 if self._kept is None else self._kept.table.nbytes + self._answering.cache.nbytes

    @property
    def _held_bytes(self) -> int:
        passing = 0 if self._pass is None else self._pass.rows.nbytes
        return sum(batch.nbytes for batch in self._batches) + passing

    def _accept(self, batch: pa.RecordBatch) -> None:
        self._columns(batch)  # for its errors, before any row is taken
        self._batches.extend(batch.slice(k, self._room) for k in range(0, len(batch), self._room))
        self._arrived(np.arange(self.rows_in, self.rows_in + batch.num_rows))

    def _make_room(self) -> Iterator[pa.RecordBatch]:
        while self.waiting > self._room:
            yield from self._pass_over()

    def finish(self) -> Iterator[pa.RecordBatch]:
        while self.waiting:
            yield from self._pass_over()
        self.version.settled()

    def _settle(self) -> Iterator[pa.RecordBatch]:
        return self.finish()

    def _pass_over(self) -> Iterator[pa.RecordBatch]:
        """Let as many rows as have room meet the relation.

        A page that cannot be read, and a device that fails, leave the pass as it is, and the next
        call goes on with it.
        """
        now = self._pass = self._pass or self._begin()
        sizes = self.version.scanned.bytes
        is_due = self._seen + len(now.pages) >= len(sizes) and now.losses is None
        if is_due and self._may_keep and self._kept is None:
            self._keep()
        while len(now.pages):
            part, pages = self._kept, now.pages
            if part is None:
                pages = fitting(pages, sizes[pages], self.split.pages)
                part = self._read(pages)
            if now.losses is None:
                now.losses = self.version.losses
            elif now.losses != self.version.losses:
                now = self._pass = self._again(now)
                continue
            try:
                joined = list(now.answer.add(part))
            except PenstockError:
                if self.plan.query.aggregation is not None:
                    # Rows already folded cannot be taken back.
                    self._pass = self._begin_with(now.rows, now.ids)
                raise
            now.pages = now.pages[len(pages) :]
            if self.version.keeps_state:
                yield from self._counted(joined)
            else:
                now.held += joined
        self._pass = None
        yield from self._counted(now.held)
        yield from self._counted(now.answer.finish())
        self._left(now.ids)

    def _read(self, pages: np.ndarray) -> pa.Table:
        """Read pages, whose rows are all of one group."""
        batch = self.version.read(pages, self._inner_columns).batch
        self._seen += len(pages)
        self.counts.pages += len(pages)
        self.counts.page_bytes += int(self.version.scanned.bytes[pages].sum())
        self.counts.reads += 1
        return in_group(batch, np.zeros(batch.num_rows, np.int64))

    def _keep(self) -> None:
        """Read the relation and keep it, unless its rows take more than was expected."""
        sizes, left = self.version.scanned.bytes, np.arange(len(self.version.scanned))
        parts: list[pa.Table] = []
        nbytes = 0
        while len(left) and nbytes <= self.split.cache // KEPT:
            pages = fitting(left, sizes[left], self.split.pages)
            parts.append(self._read(pages))
            nbytes += parts[-1].nbytes
            left = left[len(pages) :]
        if len(left):
            self._may_keep = False
        else:
            self._kept = self._answering.kept(pa.concat_tables(parts))

    def _begin(self) -> _Pass:
        batches: list[pa.RecordBatch] = []
        rows = 0
        while self._batches and (not rows or rows + len(self._batches[0]) <= self._room):
            batches.append(self._batches.popleft())
            rows += len(batches[-1])
        table = pa.Table.from_batches(batches)
        ids = np.arange(self.counts.rows, self.counts.rows + rows)
        self.counts.rows += rows
        return self._begin_with(table, ids)

    def _begin_with(self, rows: pa.Table, ids: np.ndarray) -> _Pass:
        pages = self._reach.pages(self._columns(rows), len(ids))
        answer = self._answering.begin(rows, ids, np.zeros(len(ids), np.int64))
        return _Pass(rows, answer, ids, pages)

    def _again(self, lost: _Pass) -> _Pass:
        """Begin the pass again from its first page: the state that it read is gone."""
        if lost.restarts == _RESTARTS:
            self._pass = self._begin_with(lost.rows, lost.ids)
            raise FileError(
                f"{self.relation.name} has lost its state {_RESTARTS} times while all its rows "
                "were read; look after its server, or store a copy with `penstock relation build`"
            )
        _log.info("%s has lost its state; its rows are read again", self.relation.name)
        again = self._begin_with(lost.rows, lost.ids)
        again.restarts = lost.restarts + 1
        return again

    def _columns(self, rows: pa.Table | pa.RecordBatch) -> Columns:
        """The columns of the stream by which pages are found."""
        side = self.plan.outer
        loaded = load(rows, self._reach.columns, self.plan.query.scale_of(side.side), side.alias)
        return {(side.side, name): vector for name, vector in loaded.items()}
