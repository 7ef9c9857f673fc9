"""Rows that a worker of a join holds: those that wait for the clock, and those of its window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT, JoinQuery, named_by_side
from penstock.plan.window import FOREVER, NEVER, SESSION

from ...grouping.event_times import read_times
from ...join.step import Frontier
from ...rows.sides import SideRows, counting, side_columns
from ...sessions.numbering import KeyCodes, Spans
from .held_window import JoinWindow
from .pending import Due, PendingRows, Taken
from .runs import Runs

#: Rows of a piece that a checkpoint looks at.
_PIECE_ROWS = 1 << 18

#: Rows that have a time, and their times.
Timed = tuple[pa.RecordBatch, np.ndarray]


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
            known, of_keys = keys.encode(side, self._loaded(side, timed))
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
        spans = Spans.find(codes[order], times[order], self._sessions.gap)
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


class HeldRows:
    """Rows of both sides.

    Parameters
    ----------
    query : JoinQuery
    schemas : sequence of pyarrow.Schema
        Of shipped rows, left and right.
    runs : Runs
        Of the rows in the window.

    Attributes
    ----------
    window : JoinWindow
        Rows that have been joined, and those of the step that is under way.
    pending : PendingRows
        Those that have not.
    joined : JoinQuery
        As steps have it.
    before : int
        Time up to which rows have been joined, on the clock.
    """

    def __init__(self, query: JoinQuery, schemas: Sequence[pa.Schema], runs: Runs) -> None:
        self._query, self._sides = query.by_event_time, (LEFT, RIGHT)
        self.joined = replace(query, sessions=None)
        self._named = named_by_side(self.joined)
        self.window = JoinWindow(self._named, runs)
        made = PendingRows if query.sessions is None else PendingSessions
        self.pending = made(query, schemas)
        self.before = self._joined_to = NEVER

    def begin(self, before: int) -> tuple[Frontier, Frontier]:
        """Begin the step of all rows below a time; returns what steps have reached, and it will."""
        taken, time = self.pending.take(before)
        then, now = self._frontier(self._joined_to), self._frontier(time)
        for side, rows in taken.items():
            self.window.begin(side, *rows)
        self.before, self._joined_to = before, time
        return then, now

    def _frontier(self, time: int) -> Frontier:
        return Frontier(self._named, dict.fromkeys(self._sides, time))

    # What a checkpoint has.

    @property
    def leaves_by_session(self) -> bool:
        """Whether rows leave with their session, and not by time."""
        return isinstance(self.pending, PendingSessions)

    def timed(self, side: str) -> list[Timed]:
        """Return the rows of a side that have a time."""
        own = self._query.side(side)
        held = [b for table in self.window.tables(side) for b in table.to_batches(_PIECE_ROWS)]
        old = [(batch, read_times(own, batch).times) for batch in held]
        return [*old, *self.pending.with_time(side)]

    def restore(self, rows: Iterable[tuple[str, pa.RecordBatch]]) -> None:
        """Take back rows of checkpoints: those before the time reached were joined then."""
        for side, batch in rows:
            self.pending.add(side, batch)
        if self.leaves_by_session:
            return
        taken, self._joined_to = self.pending.take(self.before)
        then = self._frontier(self._joined_to)
        for side, (timed, timeless) in taken.items():
            self.window.restore(then, side, timed)
            for batch in timeless.to_batches():
                self.pending.add(side, batch)

    # What other workers hold, too.

    def take_over(self, side: str, rows: pa.Table) -> None:
        """Hold rows that another worker holds, too: they were joined there, or wait there."""
        own = self._query.side(side)
        is_old = read_times(own, rows).times < self.before
        for batch in rows.filter(pa.array(~is_old)).combine_chunks().to_batches():
            self.pending.add(side, batch)
        if is_old.any():
            held = pa.concat_tables([*self.window.tables(side), rows.filter(pa.array(is_old))])
            then = self._frontier(self._joined_to)
            self.window.restore(then, side, Due(held, read_times(own, held).times))

    @property
    def has_ended(self) -> bool:
        """Whether no row comes any more."""
        return self.before == FOREVER

    @property
    def rows(self) -> int:
        return self.window.rows + self.pending.rows

    @property
    def nbytes(self) -> int:
        return self.window.nbytes + self.pending.nbytes
