"""A running join, or running groups, with SQL of tables around it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.around.parts import Closing
from penstock.plan.window import FOREVER, NEVER

from ..execute.stats import Stats
from ..grouping import GroupStream
from ..join.step import moment_in
from ..join.stream import JoinStream, Span
from ..windows.feeds import ONLY
from ..windows.source import Moment
from .rows import PreparedRows


class PreparedStream(PreparedRows[JoinStream | GroupStream]):
    """A running query of event times, with computed sources or output rows.

    Parameters
    ----------
    inner, sides, behind, after, schema, engine, words
        As for :class:`~.rows.PreparedRows`. Where ``after`` makes groups, pairs wait here until
        their groups are complete, and these are made when rows are polled.
    """

    #: Pairs whose groups are not complete.
    _held: pa.Table | None = None

    def push(self, source: str, batch: Any, *, feed: str = ONLY) -> None:
        """Push like :meth:`JoinStream.push`; computing the source's rows may fail, too."""
        self._push(source, batch, partial(self.inner.push, feed=feed))

    def poll(self) -> pa.Table:
        """Poll like :meth:`JoinStream.poll`; if a step after the join fails, rows wait."""
        closing = None if self._after is None else self._after.part.closing
        if closing is None or self._is_closed:
            return super().poll()
        with self._words.spoken(), self._turn:
            closed, held = self._complete(closing)
            output = self._output(closed)
            self._held = held
            return output

    def _complete(self, closing: Closing) -> tuple[pa.Table, pa.Table]:
        """Return the pairs of complete groups, and all other pairs."""
        assert isinstance(self.inner, JoinStream)
        # Before the rows: pairs that come in between belong to the next call.
        below = self.inner.complete_below(closing.alias)
        self.inner.flush()
        rows = self._last(self.inner.poll())
        if below is None or not NEVER < below < FOREVER or not rows.num_rows:
            return rows.slice(0, 0), rows
        query = self.inner.query
        side = next(one for one in query.sides if one.alias.lower() == closing.alias.lower())
        end = moment_in(query, side, below, rows.schema.field(closing.column).type)
        none = {field.name: pa.nulls(1, field.type) for field in rows.schema}
        probe = pa.table({**none, closing.column: end}, rows.schema)
        first_open = self._values(closing, probe)[0]
        is_closed = self._below(closing, rows, first_open)
        return rows.filter(is_closed), rows.filter(pc.call_function("invert", [is_closed]))

    def _below(self, closing: Closing, rows: pa.Table, end: pa.Scalar) -> pa.Array:
        """Flag rows whose group is below ``end``, and rows without a time if they are dropped."""
        times = rows[closing.column]
        has_time = pc.call_function("is_valid", [times])
        values = self._values(closing, rows.filter(has_time))
        below = pc.call_function("less", [values, end]).combine_chunks()
        timeless = pa.array(np.full(len(times), closing.drops_timeless))
        return pc.call_function("replace_with_mask", [timeless, has_time.combine_chunks(), below])

    def _values(self, closing: Closing, rows: pa.Table) -> pa.ChunkedArray:
        assert self._after is not None
        return self._engine.run(closing.text, {self._after.part.reads[0]: rows}).column(0)

    def _last(self, rows: pa.Table) -> pa.Table:
        processed = self._left_by(rows)
        return processed if self._held is None else pa.concat_tables([self._held, processed])

    def register(self, source: str, feed: str, disorder: Span | None = None) -> None:
        """Register a feed like :meth:`JoinStream.register`."""
        for name in self._sides_of(source):
            self.inner.register(name, feed, disorder)

    def deregister(self, source: str, feed: str) -> None:
        """Deregister a feed like :meth:`JoinStream.deregister`."""
        for name in self._sides_of(source):
            self.inner.deregister(name, feed)

    def pushed(self, source: str, feed: str | None = None) -> int:
        """Count batches like :meth:`JoinStream.pushed`."""
        return min(self.inner.pushed(name, feed) for name in self._sides_of(source))

    def advance(self, source: str, time_: Moment, *, feed: str = ONLY) -> None:
        """Advance a feed's time like :meth:`JoinStream.advance`."""
        for name in self._sides_of(source):
            self.inner.advance(name, time_, feed=feed)

    @property
    def stats(self) -> Stats:
        """Counts like :attr:`JoinStream.stats`; groups of one stream have none."""
        if not isinstance(self.inner, JoinStream):
            raise AttributeError("groups have no stats; report() tells what they did")
        return self.inner.stats

    def failures(self) -> dict[str, int]:
        """Count failures like :meth:`JoinStream.failures`."""
        return self.inner.failures()

    def parked(self) -> list[str]:
        """Name parked lanes like :meth:`JoinStream.parked`."""
        return self.inner.parked()
