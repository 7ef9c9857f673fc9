"""Takes rows into a join: their feeds, late rows, rows that wait for a batch."""

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
from penstock.plan.query import JoinKind, JoinQuery, Side, columns

from ...keys.prepare import check_casts, expressions
from ...metrics import Latency
from ...rows.batch_bytes import byte_counter
from ...rows.columns import load
from ...rows.growing import GROWTH
from ...rows.sides import Arrival, Read, filtered
from ...windows.pending import Pending
from ...windows.probe import Watermarks
from ...windows.source import Source, Span
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

    source: Source
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
        self._kept = {side: _of_groups(query, side) for side in self.sources}
        self._checked = {
            side: [
                expr
                for form in forms
                for expr in expressions(form, form.window == side)
                if expr.casts
            ]
            for side in self.sources
        }
        self._may_fail = {s.side for s in query.sides if self._casts(s)}
        self._extra_bytes = {side: _extra_bytes(side, forms) for side in self.sources}
        self._batch_bytes = {side: byte_counter(schema) for side, schema in schemas.items()}
        self._pending = Pending(self._extra_bytes)
        self._timeless: list[Arrival] = []
        self._grouped = query.left.time is not None and query.right.time is not None

    def _casts(self, side: Side) -> bool:
        """Whether a CAST of a side's rows can fail, in its filter, its keys or its groups."""
        exprs = [side.filter, *self._kept[side.side], *self._checked[side.side]]
        return any(expr.casts for expr in exprs)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the rows that wait for a batch."""
        return round(SPARE * self._pending.nbytes)

    def bytes_of(self, own: Source, batch: pa.RecordBatch) -> int:
        """Return about the most bytes that rows take once they are in their window."""
        side = own.side.side
        return self._batch_bytes[side](batch) + batch.num_rows * self._extra_bytes[side]

    def judge(self, own: Source, batch: pa.RecordBatch, read: Read, feed: str) -> Judged:
        """Find the rows of a feed that are on time; raise any error that its rows can cause.

        Raises
        ------
        UsageError
            The feed is unknown.
        DataError
        """
        rows = read.timed
        side = own.side.side
        admitted = self.admitted(own, feed, rows.time)
        late = rows.row[~admitted.on_time]
        if len(late):
            rows = rows.pick(np.flatnonzero(admitted.on_time))
        timed = Arrival.of(self.query, side, filtered(own.side, rows), batch)
        check_casts(self._checked[side], timed.rows.columns, len(timed.rows))
        check_casts(self._kept[side], self._columns(timed), len(timed.rows))
        alone = None
        if len(read.timeless) and self.query.kind is not JoinKind.INNER:
            alone = Arrival.of(self.query, side, filtered(own.side, read.timeless), batch)
        return Judged(own, feed, batch, admitted, late, timed, alone)

    def _columns(self, timed: Arrival) -> Columns:
        """Compute the columns for a side's keys and groups, with values of min_by and max_by."""
        side, known = timed.side, timed.rows.columns
        needed = {column for expr in self._kept[side] if expr.casts for column in columns(expr)}
        names = sorted(name for own, name in needed if (own, name) not in known)
        if not names:
            return known
        alias = self.query.side(side).alias
        more = load(timed.base, names, self.query.scale_of(side), alias)
        return {**known, **{(side, name): vector for name, vector in more.items()}}

    def take_in(self, judged: Judged) -> int:
        """Take a batch, and let its tuples wait; return their number."""
        arrivals = [a for a in (judged.timed, judged.timeless) if a is not None]
        ids = self.number(sum(len(a.rows) for a in arrivals))
        self._pending.add(judged.timed.numbered(ids[: len(judged.timed.rows)]))
        if judged.timeless is not None:
            self._timeless.append(judged.timeless.numbered(ids[len(judged.timed.rows) :]))
        self.note_taken(judged.source, judged.feed, judged.batch, judged.admitted, judged.late)
        return len(ids)

    def cannot_fail(self, own: Source, feed: str) -> bool:
        """Whether no row of a feed can be refused, so that a push need not wait to be judged."""
        return own.side.side not in self._may_fail and self.has_feed(own, feed)

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


def _of_groups(query: JoinQuery, side: str) -> list[Expr]:
    """Return the expressions of single rows of a side that are computed when groups leave."""
    made = query.aggregation
    if made is None:
        return []
    exprs = [*made.keys, *(e for a in made.aggregates for e in (a.value, a.by) if e is not None)]
    return [expr for expr in exprs if expr.sides == {side}]


def _extra_bytes(side: str, forms: Iterable[JoinForm]) -> int:
    """Return the bytes of a tuple in its window beyond its row: number, time, keys."""
    keys = 0
    for own in (form.form for form in forms if form.window == side):
        keys += len(own.tests) if isinstance(own, BandForm) else len(own.window_keys)
    return math.ceil(GROWTH * (_NUMBER_AND_TIME_BYTES + _KEY_BYTES * keys))
