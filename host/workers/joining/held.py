"""Rows that a worker of a join holds: rows that wait for the clock, and rows in its window."""

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
from .pending import DueRows, PendingRows, StepRows
from .runs import Runs

#: Rows per batch in which a checkpoint reads the window.
_PIECE_ROWS = 1 << 18

#: Rows whose event time is not NULL, and their times.
Timed = tuple[pa.RecordBatch, np.ndarray]


class PendingSessions(PendingRows):
    """Pending rows of a join by sessions: a step takes all rows of the sessions that have closed.

    In the join, the number of a session stands for its rows' time, so a step's time is the number
    of the next session to close.

    Parameters
    ----------
    query : JoinQuery
        With sessions.
    schemas : sequence of pyarrow.Schema
        Of shipped rows, by source.
    """

    def __init__(self, query: JoinQuery, schemas: Sequence[pa.Schema]) -> None:
        super().__init__(query.by_event_time, schemas)
        assert query.sessions is not None
        self._query, self._sessions = query.by_event_time, query.sessions
        #: No session closes until the clock passes this time.
        self._quiet = FOREVER
        self._following = 0

    def add(self, side: str, batch: pa.RecordBatch) -> np.ndarray:
        times = super().add(side, batch)
        if len(times):
            self._quiet = min(self._quiet, int(times.min()) + self._sessions.gap)
        return times

    def take(self, clock: int) -> tuple[StepRows, int]:
        if clock <= self._quiet and clock != FOREVER:
            due: StepRows = {}
            for side, pending in self.sides.items():
                alone = pending.without_time()
                due[side] = _with_sessions(alone.slice(0, 0), alone, np.zeros(0, np.int64))
            return due, self._following
        rows: dict[str, pa.Table] = {}
        alone_by_side: dict[str, pa.Table] = {}
        codes, times, keys = [], [], KeyCodes(self._sessions)
        for side, pending in self.sides.items():
            timed = pending.below(FOREVER).in_order()
            known, of_keys = keys.encode(side, self._loaded(side, timed))
            rows[side] = timed.filter(pa.array(known))
            unkeyed = timed.filter(pa.array(~known))
            alone_by_side[side] = pa.concat_tables([pending.without_time(), unkeyed])
            codes.append(of_keys)
            times.append(read_times(self._query.side(side), rows[side]).times)
        numbers = self._numbers(np.concatenate(codes), np.concatenate(times), clock)
        due = {}
        for side, of_side in zip((LEFT, RIGHT), np.split(numbers, [len(codes[0])]), strict=True):
            for batch in rows[side].filter(pa.array(of_side < 0)).combine_chunks().to_batches():
                super().add(side, batch)
            closed = np.flatnonzero(of_side >= 0)
            order = closed[np.argsort(of_side[closed], kind="stable")]
            timed = rows[side].take(pa.array(order))
            due[side] = _with_sessions(timed, alone_by_side[side], of_side[order])
        return due, FOREVER if clock == FOREVER else self._following

    def _loaded(self, side: str, rows: pa.Table) -> SideRows:
        every, names = counting(rows.num_rows), sorted(self._sessions.columns_of(side))
        return SideRows(every, every, side_columns(self._query, side, rows, names))

    def _numbers(self, codes: np.ndarray, times: np.ndarray, clock: int) -> np.ndarray:
        """Return the number of each row's session; -1 if the session is open."""
        order = np.lexsort((times, codes))
        spans = Spans.find(codes[order], times[order], self._sessions.gap)
        closed = spans.closed(clock, self._sessions.gap)
        numbers = np.full(len(order), -1, np.int64)
        rows = order[np.repeat(closed, spans.sizes)]
        numbers[rows] = spans.numbers(closed, order, self._following)
        self._following += int(closed.sum())
        still = spans.last[~closed]
        self._quiet = int(still.min()) + self._sessions.gap if len(still) else FOREVER
        return numbers


def _with_sessions(
    timed: pa.Table, timeless: pa.Table, sessions: np.ndarray
) -> tuple[DueRows, pa.Table]:
    """Add the column with the numbers of sessions."""
    none = pa.nulls(timeless.num_rows, pa.int64())
    return (
        DueRows(timed.append_column(SESSION, pa.array(sessions, pa.int64()))),
        timeless.append_column(SESSION, none),
    )


class HeldRows:
    """All rows that one worker of a join holds.

    Parameters
    ----------
    query : JoinQuery
    schemas : sequence of pyarrow.Schema
        Of shipped rows, by source.
    runs : Runs
        Makes the sorted runs of the window.

    Attributes
    ----------
    window : JoinWindow
        Rows that have been joined, or are in the step that is under way.
    pending : PendingRows
        Rows that have not been joined.
    joined : JoinQuery
        The query that steps run.
    before : int
        Clock up to which rows have been joined.
    """

    def __init__(self, query: JoinQuery, schemas: Sequence[pa.Schema], runs: Runs) -> None:
        self._query, self._sides = query.by_event_time, (LEFT, RIGHT)
        self.joined = replace(query, sessions=None)
        self._named = named_by_side(self.joined)
        self.window = JoinWindow(self._named, runs)
        kind = PendingRows if query.sessions is None else PendingSessions
        self.pending = kind(query, schemas)
        self.before = self._joined_to = NEVER

    def begin(self, before: int) -> tuple[Frontier, Frontier]:
        """Begin a step of all rows below a time; returns the frontiers before and after it."""
        due, time = self.pending.take(before)
        then, now = self._frontier(self._joined_to), self._frontier(time)
        for side, rows in due.items():
            self.window.begin(side, *rows)
        self.before, self._joined_to = before, time
        return then, now

    def _frontier(self, time: int) -> Frontier:
        return Frontier(self._named, dict.fromkeys(self._sides, time))

    # Checkpoints.

    @property
    def leaves_by_session(self) -> bool:
        """Whether rows leave with their session instead of by time."""
        return isinstance(self.pending, PendingSessions)

    def timed(self, side: str) -> list[Timed]:
        """Return the rows of a side that have a time."""
        source = self._query.side(side)
        held = [b for table in self.window.tables(side) for b in table.to_batches(_PIECE_ROWS)]
        old = [(batch, read_times(source, batch).times) for batch in held]
        return [*old, *self.pending.with_time(side)]

    def restore(self, rows: Iterable[tuple[str, pa.RecordBatch]]) -> None:
        """Hold rows of checkpoints: as joined if they lie before the time reached, else pending."""
        for side, batch in rows:
            self.pending.add(side, batch)
        if self.leaves_by_session:
            return
        due, self._joined_to = self.pending.take(self.before)
        then = self._frontier(self._joined_to)
        for side, (timed, timeless) in due.items():
            self.window.restore(then, side, timed)
            for batch in timeless.to_batches():
                self.pending.add(side, batch)

    # Rows that other workers hold, too.

    def take_over(self, side: str, rows: pa.Table) -> None:
        """Hold copies of another worker's rows, which were joined there or are pending there."""
        source = self._query.side(side)
        is_old = read_times(source, rows).times < self.before
        for batch in rows.filter(pa.array(~is_old)).combine_chunks().to_batches():
            self.pending.add(side, batch)
        if is_old.any():
            held = pa.concat_tables([*self.window.tables(side), rows.filter(pa.array(is_old))])
            then = self._frontier(self._joined_to)
            self.window.restore(then, side, DueRows(held, read_times(source, held).times))

    @property
    def has_ended(self) -> bool:
        """Whether no further row comes."""
        return self.before == FOREVER

    @property
    def rows(self) -> int:
        return self.window.rows + self.pending.rows

    @property
    def nbytes(self) -> int:
        return self.window.nbytes + self.pending.nbytes
