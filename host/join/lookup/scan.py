"""Joins batches of rows with all rows of a relation, page by page: conditions without its key."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.errors import FileError, PenstockError
from penstock.expr.columns import Columns

from ...lookup.lookup import Counts
from ...lookup.memory import split_of
from ...lookup.pages import fitting
from ...relation.border import Version
from ...rows.columns import load
from .answer import Answer, in_group
from .lookup_join import RelationJoin
from .reach import Reach

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
    """Finds the rows of a relation page by page.

    Waiting rows meet the pages that may hold a match, a few pages at a time, as tasks of the
    device. A row that is preserved, or tested for a match, is decided after the last page.
    """

    def _start(self) -> None:
        self._counts = Counts()
        self._batches: deque[pa.RecordBatch] = deque()
        self._pass: _Pass | None = None

    def _open(self, version: Version, *, goes_on: bool) -> None:
        width = self._row_bytes
        self.split = split_of(version, self.options.memory_bytes, width, None, goes_on=goes_on)
        self._room = self.split.rows_of(width)
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
        return 0

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
        while len(now.pages):
            pages = fitting(now.pages, sizes[now.pages], self.split.pages)
            batch = self.version.read(pages, self._inner_columns).batch
            if now.losses is None:
                now.losses = self.version.losses
            elif now.losses != self.version.losses:
                now = self._pass = self._again(now)
                continue
            self.counts.pages += len(pages)
            self.counts.page_bytes += int(sizes[pages].sum())
            self.counts.reads += 1
            try:
                part = in_group(batch, np.zeros(batch.num_rows, np.int64))
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
        again = self._begin_with(lost.rows, lost.ids)
        again.restarts = lost.restarts + 1
        return again

    def _columns(self, rows: pa.Table | pa.RecordBatch) -> Columns:
        """The columns of the stream by which pages are found."""
        side = self.plan.outer
        loaded = load(rows, self._reach.columns, self.plan.query.scale_of(side.side), side.alias)
        return {(side.side, name): vector for name, vector in loaded.items()}
