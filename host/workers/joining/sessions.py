"""Rows of a join by sessions that wait until the session of each has closed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT, JoinQuery
from penstock.plan.sessions import SESSION
from penstock.plan.window import FOREVER

from ...grouping.event_times import read_times
from ...rows.columns import load
from ...rows.counting import counting
from ...rows.sides import SideRows
from ...sessions.key_codes import KeyCodes
from ...sessions.numbering import Spans
from .pending import PendingRows, Taken


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

    def add(self, side: str, batch: pa.RecordBatch) -> None:
        super().add(side, batch)
        times = read_times(self._query.side(side), batch).times
        if len(times):
            self._quiet = min(self._quiet, int(times.min()) + self._sessions.gap)

    def take(self, clock: int) -> tuple[Taken, int]:
        if clock <= self._quiet and clock != FOREVER:
            taken = {side: own.below(0, only_timeless=True) for side, own in self.sides.items()}
            return {side: _named(*both) for side, both in taken.items()}, self._following
        rows: dict[str, pa.Table] = {}
        alone: dict[str, pa.Table] = {}
        codes, times, keys = [], [], KeyCodes(self._sessions)
        for side, own in self.sides.items():
            timed, timeless = own.below(FOREVER)
            known, of_keys = keys.of(side, self._loaded(side, timed))
            rows[side] = timed.filter(pa.array(known))
            alone[side] = pa.concat_tables([timeless, timed.filter(pa.array(~known))])
            codes.append(of_keys)
            times.append(_times(self._query, side, rows[side]))
        numbers = self._numbers(np.concatenate(codes), np.concatenate(times), clock)
        found: Taken = {}
        for side, own in zip((LEFT, RIGHT), np.split(numbers, [len(codes[0])]), strict=True):
            for batch in rows[side].filter(pa.array(own < 0)).combine_chunks().to_batches():
                super().add(side, batch)
            leaving = np.flatnonzero(own >= 0)
            order = leaving[np.argsort(own[leaving], kind="stable")]
            found[side] = _named(rows[side].take(pa.array(order)), alone[side], own[order])
        return found, FOREVER if clock == FOREVER else self._following

    def _loaded(self, side: str, rows: pa.Table) -> SideRows:
        table, every = rows.combine_chunks(), counting(rows.num_rows)
        names = sorted(name for name in self._sessions.columns_of(side))
        loaded = load(table, names, self._query.scale_of(side), self._query.side(side).alias)
        return SideRows(every, every, {(side, name): vector for name, vector in loaded.items()})

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


def _times(query: JoinQuery, side: str, rows: pa.Table) -> np.ndarray:
    (batch,) = rows.combine_chunks().to_batches() or [None]
    none = np.zeros(0, np.int64)
    return none if batch is None else read_times(query.side(side), batch).times


def _named(
    timed: pa.Table, timeless: pa.Table, sessions: np.ndarray | None = None
) -> tuple[pa.Table, pa.Table]:
    """Add the column of sessions."""
    numbers = np.zeros(0, np.int64) if sessions is None else sessions
    none = pa.nulls(timeless.num_rows, pa.int64())
    return (
        timed.append_column(SESSION, pa.array(numbers, pa.int64())),
        timeless.append_column(SESSION, none),
    )
