"""Takes rows into a join: their feeds, late rows, rows that wait for a batch, or for their session.

Rows whose values cannot be computed are refused before they are taken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns
from penstock.expr.node import Expr
from penstock.plan.band import BandForm
from penstock.plan.forms import JoinForm
from penstock.plan.query import LEFT, RIGHT, JoinKind, JoinQuery, columns
from penstock.plan.ranges import arrival_numbers
from penstock.plan.window import FOREVER, NEVER

from ...keys.prepare import check_casts, expressions
from ...metrics import Latency
from ...rows.batch_bytes import byte_counter
from ...rows.growing import GROWTH
from ...rows.sides import Arrival, Read, filtered, side_columns
from ...sessions.open_sessions import OpenSessions
from ...windows.probe import Watermarks
from ...windows.source import Span, StreamSource
from ...windows.waiting import Pending
from .sources import Admitted, Sources

#: Memory that many small waiting batches take per byte: measured, with losses of allocators.
SPARE = 1.4
#: Bytes of a tuple's number and time, and of a prepared key with its validity.
_NUMBER_AND_TIME_BYTES, _KEY_BYTES = 16, 9


@dataclass(frozen=True)
class Judged:
    """A batch that can be taken: all that can fail has been done, and no state has changed.

    Parameters
    ----------
    admitted : Admitted
        Of its rows with a time.
    late : ndarray of int64
        Late rows of the batch.
    timed : Arrival
        Tuples that are on time, not yet numbered.
    timeless : Arrival or None
        Tuples without a time, if there are any and they may leave without a match.
    """

    source: StreamSource
    feed: str
    batch: pa.RecordBatch
    admitted: Admitted
    late: np.ndarray
    timed: Arrival
    timeless: Arrival | None


class Intake(Sources):
    """Takes the rows and watermarks of both sources, in one thread.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
    forms : sequence of JoinForm
        Forms that the join evaluates.
    latency : Latency
        Notes when tuples arrive.
    disorder : int, timedelta, or mapping of source to either
    idle_s : float, optional
        Seconds of silence after which a feed no longer holds up the others.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        forms: Sequence[JoinForm],
        latency: Latency,
        *,
        disorder: Span | Mapping[str, Span],
        idle_s: float | None,
    ) -> None:
        super().__init__(query.sides, schemas, query.time_zone, disorder=disorder, idle_s=idle_s)
        self.query = query
        self.latency = latency
        self._following = 0
        self._checks = JoinChecks(query, forms)
        self._extra_bytes = {side: _extra_bytes(side, forms) for side in self.sources}
        self._batch_bytes = {side: byte_counter(schema) for side, schema in schemas.items()}
        self._pending = Pending(self._extra_bytes)
        self._timeless: list[Arrival] = []
        self._grouped = query.left.time is not None and query.right.time is not None

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the rows that wait for a batch."""
        return round(SPARE * self._pending.nbytes)

    @property
    def kept_rows(self) -> int:
        """Number of rows that are kept until they can enter a window."""
        return 0

    def release(self) -> int:
        """Let kept rows wait for a batch, if watermarks have risen; return their number."""
        return 0

    def bytes_of(self, source: StreamSource, batch: pa.RecordBatch) -> int:
        """Return about the most bytes that rows take once they are in their window."""
        side = source.side.side
        return self._batch_bytes[side](batch) + batch.num_rows * self._extra_bytes[side]

    def judge(self, source: StreamSource, batch: pa.RecordBatch, read: Read, feed: str) -> Judged:
        """Find the rows of a feed that are on time; raise any error that its rows can cause.

        Raises
        ------
        UsageError
            The feed is unknown.
        DataError
        """
        rows = read.timed
        side = source.side.side
        admitted = self.admitted(source, feed, rows.time)
        late = rows.row[~admitted.on_time]
        if len(late):
            rows = rows.pick(np.flatnonzero(admitted.on_time))
        timed = Arrival.of_batch(self.query, side, filtered(source.side, rows), batch)
        self._checks.check(timed)
        alone = None
        if len(read.timeless) and self.query.kind is not JoinKind.INNER:
            alone = Arrival.of_batch(self.query, side, filtered(source.side, read.timeless), batch)
        return Judged(source, feed, batch, admitted, late, timed, alone)

    def take_in(self, judged: Judged) -> int:
        """Take a batch, and let its tuples wait; return their number."""
        arrivals = [a for a in (judged.timed, judged.timeless) if a is not None]
        ids = self.number(sum(len(a.rows) for a in arrivals))
        self._pending.add(judged.timed.numbered(ids[: len(judged.timed.rows)]))
        if judged.timeless is not None:
            self._timeless.append(judged.timeless.numbered(ids[len(judged.timed.rows) :]))
        self.note_taken(judged.source, judged.feed, judged.batch, judged.admitted, judged.late)
        return len(ids)

    def cannot_fail(self, source: StreamSource, feed: str) -> bool:
        """Whether no row of a feed can be refused, so that a push need not wait to be judged."""
        return not self._checks.may_fail(source.side.side) and self.has_feed(source, feed)

    def number(self, count: int) -> np.ndarray:
        """Return the next arrival numbers, for tuples that come now."""
        ids = np.arange(self._following, self._following + count, dtype=np.int64)
        self._following += count
        self.latency.arrived(ids, time.monotonic())
        return ids

    def next_tuples(self, count: int) -> tuple[list[Arrival], list[Arrival]]:
        """Take the oldest waiting tuples, and all new timeless rows since the last call."""
        timeless, self._timeless = self._timeless, []
        return self._pending.take(count, grouped=self._grouped), timeless

    def watermarks(self) -> Watermarks:
        """Return the watermarks of the sides; waiting rows count as later rows."""
        return {
            side: min(known, self._pending.oldest(side))
            for side, known in super().watermarks().items()
        }


def _extra_bytes(side: str, forms: Iterable[JoinForm]) -> int:
    """Return the bytes of a tuple in its window beyond its row: number, time, keys."""
    keys = 0
    for form in (join_form.form for join_form in forms if join_form.window == side):
        keys += len(form.tests) if isinstance(form, BandForm) else len(form.window_keys)
    return math.ceil(GROWTH * (_NUMBER_AND_TIME_BYTES + _KEY_BYTES * keys))


class SessionIntake(Intake):
    """Judges rows by their event times; in the join, the number of a session is its rows' time.

    A session closes, with all its rows, once the watermarks of both sides have passed its end.
    Parameters as for :class:`Intake`.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        forms: Sequence[JoinForm],
        latency: Latency,
        *,
        disorder: Span | Mapping[str, Span],
        idle_s: float | None,
    ) -> None:
        assert query.sessions is not None
        judged = query.by_event_time
        super().__init__(judged, schemas, forms, latency, disorder=disorder, idle_s=idle_s)
        self._open = OpenSessions(query.sessions, self._extra_bytes)
        self._clock = NEVER

    @property
    def nbytes(self) -> int:
        return super().nbytes + round(SPARE * self._open.nbytes)

    @property
    def kept_rows(self) -> int:
        return len(self._open)

    def take_in(self, judged: Judged) -> int:
        alone = [self._open.add(judged.timed)]
        if judged.timeless is not None:
            alone.append(judged.timeless)
        if self.query.kind is JoinKind.INNER:
            alone = []
        for one in alone:
            if len(one.rows):
                self._timeless.append(one.numbered(self.number(len(one.rows))))
        self.note_taken(judged.source, judged.feed, judged.batch, judged.admitted, judged.late)
        return sum(len(one.rows) for one in alone) + self.release()

    def release(self) -> int:
        self._clock = min(Sources.watermarks(self).values())
        closed = {one.side: one for one in self._open.close(self._clock)}
        none = np.zeros(0, np.int64)
        left, right = (closed[side].rows.time if side in closed else none for side in (LEFT, RIGHT))
        numbers = self.number(len(left) + len(right))
        for side, places in zip((LEFT, RIGHT), arrival_numbers(left, right), strict=True):
            if side in closed:
                self._pending.add(closed[side].numbered(numbers[places]))
        return len(numbers)

    def watermarks(self) -> Watermarks:
        closed = FOREVER if self._clock == FOREVER else self._open.following
        return {side: min(closed, self._pending.oldest(side)) for side in (LEFT, RIGHT)}

    def lag(self) -> dict[str, int]:
        return self.lag_behind(Sources.watermarks(self))


class JoinChecks:
    """The casts of single rows, in filters, keys and groups.

    Parameters
    ----------
    query : JoinQuery
    forms : sequence of JoinForm
        Forms that the join evaluates.
    """

    def __init__(self, query: JoinQuery, forms: Sequence[JoinForm]) -> None:
        self._query = query
        self._kept = {side: _of_groups(query, side) for side in (LEFT, RIGHT)}
        self._checked = {
            side: [
                expr
                for form in forms
                for expr in expressions(form, form.window == side)
                if expr.may_fail
            ]
            for side in (LEFT, RIGHT)
        }
        self._may_fail = {side: self._casts(side) for side in (LEFT, RIGHT)}

    def _casts(self, side: str) -> bool:
        exprs = [self._query.side(side).filter, *self._kept[side], *self._checked[side]]
        return any(expr.may_fail for expr in exprs)

    def may_fail(self, side: str) -> bool:
        """Whether a CAST of a side's rows can fail, in its filter, its keys or its groups."""
        return self._may_fail[side]

    def check(self, arrived: Arrival) -> None:
        """Refuse rows, which pass their filter, with a value that cannot be computed.

        Raises
        ------
        DataError
        """
        side, rows = arrived.side, arrived.rows
        check_casts(self._checked[side], rows.columns, len(rows))
        check_casts(self._kept[side], self._columns(arrived), len(rows))

    def _columns(self, arrived: Arrival) -> Columns:
        """Compute the columns for a side's keys and groups, with values of min_by and max_by."""
        side, known = arrived.side, arrived.rows.columns
        needed = {column for expr in self._kept[side] if expr.may_fail for column in columns(expr)}
        names = sorted(name for owner, name in needed if (owner, name) not in known)
        if not names:
            return known
        return {**known, **side_columns(self._query, side, arrived.base, names)}


def _of_groups(query: JoinQuery, side: str) -> list[Expr]:
    """Return the expressions of single rows of a side that are computed when groups leave."""
    aggregation = query.aggregation
    if aggregation is None:
        return []
    exprs = [
        *aggregation.keys,
        *(e for a in aggregation.aggregates for e in (a.value, a.by) if e is not None),
    ]
    return [expr for expr in exprs if expr.sides == {side}]
