"""Rows of a join by sessions that wait until the session of each has closed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT, JoinQuery
from penstock.plan.sessions import SESSION
from penstock.plan.window import FOREVER

from ...grouping.event_times import read_times
from ...rows.counting import counting
from ...rows.sides import SideRows, side_columns
from ...sessions.key_codes import KeyCodes
from ...sessions.numbering import Spans
from .pending import Due, PendingRows, Taken


class PendingSessions(PendingRows):
    """Rows of both sides. A step takes all rows of the sessions that have closed.

    The number of a session is its rows' time in the join, so the step's own time is the number of
    the next one that closes.

    Parameters
    ----------
    query : JoinQuery
        With sessions.
    schemas : sequence of pyarrow.Schema
        Of shipped rows, left and right.
    """

    def __init__(self, query: JoinQuery, schemas: Sequence[pa.Schema]) -> None:
        super().__init__(query.by_event_time, schemas)
        assert query.sessions is not None
        self._query, self._sessions = query.by_event_time, query.sessions
        #: While the clock has not passed it, no session closes.
        self._quiet = FOREVER
        self._following = 0

    def add(self, side: str, batch: pa.RecordBatch) -> np.ndarray:
        times = super().add(side, batch)
        if len(times):
            self._quiet = min(self._quiet, int(times.min()) + self._sessions.gap)
        return times

    def take(self, clock: int) -> tuple[Taken, int]:
        if clock <= self._quiet and clock != FOREVER:
            taken: Taken = {}
            for side, own in self.sides.items():
                alone = own.without_time()
                taken[side] = _named(alone.slice(0, 0), alone, np.zeros(0, np.int64))
            return taken, self._following
        rows: dict[str, pa.Table] = {}
        rest: dict[str, pa.Table] = {}
        codes, times, keys = [], [], KeyCodes(self._sessions)
        for side, own in self.sides.items():
            timed = own.below(FOREVER).in_order()
            known, of_keys = keys.of(side, self._loaded(side, timed))
            rows[side] = timed.filter(pa.array(known))
            rest[side] = pa.concat_tables([own.without_time(), timed.filter(pa.array(~known))])
            codes.append(of_keys)
            times.append(read_times(self._query.side(side), rows[side]).times)
        numbers = self._numbers(np.concatenate(codes), np.concatenate(times), clock)
        found: Taken = {}
        for side, own in zip((LEFT, RIGHT), np.split(numbers, [len(codes[0])]), strict=True):
            for batch in rows[side].filter(pa.array(own < 0)).combine_chunks().to_batches():
                super().add(side, batch)
            leaving = np.flatnonzero(own >= 0)
            order = leaving[np.argsort(own[leaving], kind="stable")]
            found[side] = _named(rows[side].take(pa.array(order)), rest[side], own[order])
        return found, FOREVER if clock == FOREVER else self._following

    def _loaded(self, side: str, rows: pa.Table) -> SideRows:
        every, names = counting(rows.num_rows), sorted(self._sessions.columns_of(side))
        return SideRows(every, every, side_columns(self._query, side, rows, names))

    def _numbers(self, codes: np.ndarray, times: np.ndarray, clock: int) -> np.ndarray:
        """Number the session of each row; -1 for those that are open."""
        order = np.lexsort((times, codes))
        spans = Spans.of(codes[order], times[order], self._sessions.gap)
        closed = spans.closed(clock, self._sessions.gap)
        found = np.full(len(order), -1, np.int64)
        found[order[np.repeat(closed, spans.sizes)]] = spans.numbers(closed, order, self._following)
        self._following += int(closed.sum())
        still = spans.last[~closed]
        self._quiet = int(still.min()) + self._sessions.gap if len(still) else FOREVER
        return found


def _named(timed: pa.Table, timeless: pa.Table, sessions: np.ndarray) -> tuple[Due, pa.Table]:
    """Add the column of sessions."""
    none = pa.nulls(timeless.num_rows, pa.int64())
    return (
        Due(timed.append_column(SESSION, pa.array(sessions, pa.int64()))),
        timeless.append_column(SESSION, none),
    )
