"""Rows that a worker of a join holds: those that wait for the clock, and those of its window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT, JoinQuery, named_by_side
from penstock.plan.window import FOREVER, NEVER

from ...grouping.event_times import read_times
from ...join.step import Frontier
from .pending import Due, PendingRows
from .runs import Runs
from .sessions import PendingSessions
from .window import JoinWindow

#: Rows of a piece that a checkpoint looks at.
_PIECE_ROWS = 1 << 18

#: Rows that have a time, and their times.
Timed = tuple[pa.RecordBatch, np.ndarray]


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
