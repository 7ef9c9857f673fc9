"""Takes rows into a join: their feeds, late rows, rows that wait for a batch."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError, UsageError
from penstock.expr.columns import Columns
from penstock.expr.node import Expr
from penstock.plan.band import BandForm
from penstock.plan.forms import JoinForm
from penstock.plan.query import JoinKind, JoinQuery, Side, columns
from penstock.plan.window import FOREVER, NEVER

from ...keys.prepare import check_casts, expressions
from ...metrics import Latency
from ...rows.batch_bytes import byte_counter
from ...rows.columns import load
from ...rows.growing import GROWTH
from ...rows.sides import Arrival, Read, filtered
from ...windows.feeds import ONLY, Feeds
from ...windows.pending import Pending
from ...windows.probe import Watermarks
from ...windows.source import Moment, Source, Span, check_names
from .handover import Handover

#: Memory that many small waiting batches take per byte: measured, with losses of allocators.
SPARE = 1.4
#: Bytes of a tuple's number and time, and of a prepared key with its validity.
_NUMBER_AND_TIME_BYTES, _KEY_BYTES = 16, 9


@dataclass(frozen=True)
class Judged:
    """A batch that can be taken: all that can fail has been done, and no state has changed.

    Parameters
    ----------
    largest : int or None
        Largest time of its rows; None if all are timeless.
    feeds : Feeds
        State of the source's feeds once the batch has been taken.
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
    largest: int | None
    feeds: Feeds
    late: np.ndarray
    timed: Arrival
    timeless: Arrival | None


class Intake:
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
        self.query = query
        self.schemas = schemas
        self.latency = latency
        self._following = 0
        check_names(disorder, query.sides)
        self.sources = {s.side: Source(s, disorder, query.time_zone) for s in query.sides}
        self.arrived = {s.alias: 0 for s in query.sides}
        self.late = {s.alias: 0 for s in query.sides}
        self._feeds = {
            side: Feeds(own.side.alias, own.disorder, idle_s) for side, own in self.sources.items()
        }
        for feeds in self._feeds.values():
            feeds.register(ONLY, time.monotonic())
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
        self._largest: dict[str, int] = {}
        self._extra_bytes = {side: _extra_bytes(side, forms) for side in self.sources}
        self._batch_bytes = {side: byte_counter(schema) for side, schema in schemas.items()}
        self._pending = Pending(self._extra_bytes)
        self._timeless: list[Arrival] = []
        self._taken: Counter[tuple[str, str]] = Counter()
        self._late: Handover[tuple[str, pa.RecordBatch]] = Handover()
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

    def find(self, name: str) -> Source:
        """Return the source with this alias, or else with this table.

        Raises
        ------
        UsageError
        """
        for attribute in ("alias", "table"):
            found = [
                own
                for own in self.sources.values()
                if getattr(own.side, attribute).lower() == name.lower()
            ]
            if len(found) == 1:
                return found[0]
        names = " and ".join(own.side.alias for own in self.sources.values())
        raise UsageError(f"unknown source {name!r}; the query joins {names}")

    def register(self, own: Source, feed: str, disorder: Span | None) -> None:
        """Begin a feed of a source; see :meth:`JoinStream.register`."""
        if feed == ONLY:
            raise UsageError("a feed needs a name that is not empty")
        span = None if disorder is None else own.span(disorder)
        feeds = self._feeds[own.side.side]
        feeds.register(feed, time.monotonic(), span)
        if ONLY in feeds.names:
            feeds.deregister(ONLY)

    def deregister(self, own: Source, feed: str) -> None:
        """End a feed of a source."""
        self._feeds[own.side.side].deregister(feed)

    def signal(self, own: Source, feed: str, moment: Moment) -> None:
        """Promise that no later row of a feed has a time below ``moment``."""
        self._feeds[own.side.side].signal(feed, own.moment(moment), time.monotonic())

    def end(self) -> None:
        """End all feeds of all sources."""
        for feeds in self._feeds.values():
            feeds.end()

    def judge(self, own: Source, batch: pa.RecordBatch, read: Read, feed: str) -> Judged:
        """Find the rows of a feed that are on time; raise any error that its rows can cause.

        Raises
        ------
        UsageError
            The feed is unknown.
        DataError
        """
        rows = read.timed
        side, feeds = own.side.side, self._feeds[own.side.side].copy()
        late, largest = np.zeros(0, dtype=np.int64), None
        if own.side.time is not None:
            on_time = feeds.admit(feed, rows.time, time.monotonic())
            largest = int(rows.time.max()) if len(rows) else None
            if not on_time.all():
                late = rows.row[~on_time]
                rows = rows.pick(np.flatnonzero(on_time))
        timed = Arrival.of(self.query, side, filtered(own.side, rows), batch)
        check_casts(self._checked[side], timed.rows.columns, len(timed.rows))
        check_casts(self._kept[side], self._columns(timed), len(timed.rows))
        alone = None
        if len(read.timeless) and self.query.kind is not JoinKind.INNER:
            alone = Arrival.of(self.query, side, filtered(own.side, read.timeless), batch)
        return Judged(own, feed, batch, largest, feeds, late, timed, alone)

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
        own, batch = judged.source, judged.batch
        side, alias = own.side.side, own.side.alias
        self._feeds[side] = judged.feeds
        arrivals = [a for a in (judged.timed, judged.timeless) if a is not None]
        ids = self.number(sum(len(a.rows) for a in arrivals))
        self._pending.add(judged.timed.numbered(ids[: len(judged.timed.rows)]))
        if judged.timeless is not None:
            self._timeless.append(judged.timeless.numbered(ids[len(judged.timed.rows) :]))
        self.arrived[alias] += batch.num_rows
        self._taken[alias, judged.feed] += 1
        if judged.largest is not None:
            self._largest[side] = max(judged.largest, self._largest.get(side, judged.largest))
        if len(judged.late):
            rows = batch.take(pa.array(judged.late))
            self._late.put((alias, rows), rows.num_rows, rows.nbytes)
            self.late[alias] += rows.num_rows
        return len(ids)

    def cannot_fail(self, own: Source, feed: str) -> bool:
        """Whether no row of a feed can be refused, so that a push need not wait to be judged."""
        return own.side.side not in self._may_fail and feed in self._feeds[own.side.side].names

    def taken(self, own: Source, feed: str | None) -> int:
        """Return the number of batches taken of one feed of a source, or of all."""
        return sum(
            count
            for (alias, name), count in self._taken.items()
            if alias == own.side.alias and feed in (None, name)
        )

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

    def late_rows(self) -> dict[str, pa.Table]:
        """Take the late rows per source since the last call; as :meth:`Handover.take`."""

        def tables(parts: Sequence[tuple[str, pa.RecordBatch]]) -> dict[str, pa.Table]:
            return {
                own.side.alias: pa.Table.from_batches(
                    [rows for alias, rows in parts if alias == own.side.alias], self.schemas[side]
                )
                for side, own in self.sources.items()
            }

        return self._late.take(tables)

    def watermarks(self) -> Watermarks:
        """Return the watermarks of the sides; waiting rows count as later rows."""
        now = time.monotonic()
        return {
            side: min(feeds.watermark(now), self._pending.oldest(side))
            for side, feeds in self._feeds.items()
        }

    def lag(self) -> dict[str, int]:
        """Return per source how far its watermark is behind its largest time."""
        watermarks = self.watermarks()
        return {
            self.sources[side].side.alias: largest - watermarks[side]
            for side, largest in self._largest.items()
            if NEVER < watermarks[side] < FOREVER
        }

    def next_idle(self, now: float) -> list[float]:
        """Return when the next feed of each side becomes idle, unless it sends before."""
        moments = [feeds.next_idle(now) for feeds in self._feeds.values()]
        return [moment for moment in moments if moment is not None]


def _of_groups(query: JoinQuery, side: str) -> list[Expr]:
    """Return the expressions of single rows of a side that are computed when groups leave."""
    made = query.aggregation
    if made is None:
        return []
    exprs = [*made.keys, *(e for a in made.aggregates for e in (a.value, a.by) if e is not None)]
    return [expr for expr in exprs if expr.sides == {side}]


def one_batch(batch: pa.RecordBatch | pa.Table, schema: pa.Schema, source: str) -> pa.RecordBatch:
    """Return pushed rows as one batch with the columns of the source.

    Raises
    ------
    SchemaError
        A column is missing, or has another type.
    """
    if batch.schema.equals(schema):
        if isinstance(batch, pa.RecordBatch):
            return batch
        if len(parts := batch.to_batches()) == 1:
            return parts[0]
    for column in schema:
        index = batch.schema.get_field_index(column.name)
        if index < 0:
            raise SchemaError(f"a batch of {source} has no column {column.name}")
        if batch.schema.field(index).type != column.type:
            raise SchemaError(
                f"column {column.name} of a batch of {source} is {batch.schema.field(index).type}, "
                f"but the stream was opened with {column.type}"
            )
    batch = batch.select(schema.names)
    if isinstance(batch, pa.Table):
        parts = batch.combine_chunks().to_batches()
        batch = parts[0] if parts else pa.RecordBatch.from_pylist([], schema=batch.schema)
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _extra_bytes(side: str, forms: Iterable[JoinForm]) -> int:
    """Return the bytes of a tuple in its window beyond its row: number, time, keys."""
    keys = 0
    for own in (form.form for form in forms if form.window == side):
        keys += len(own.tests) if isinstance(own, BandForm) else len(own.window_keys)
    return math.ceil(GROWTH * (_NUMBER_AND_TIME_BYTES + _KEY_BYTES * keys))
