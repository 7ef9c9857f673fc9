"""A join of two streams, pushed batch by batch, exact for any batch cut."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError, SchemaError, UsageError
from penstock.host.budget import Budget
from penstock.host.clock import Clock
from penstock.host.completeness.admission import FOREVER, NEVER
from penstock.host.completeness.engine import Promises
from penstock.host.completeness.feeds import ONLY, Feeds
from penstock.host.completeness.ids import TupleIds
from penstock.host.completeness.opening import open_engine
from penstock.host.completeness.pending import Pending
from penstock.host.completeness.source import Moment, Source, Span, check_names
from penstock.host.device.base import Device
from penstock.host.lanes.trace import Trace
from penstock.host.metrics import Latency, MetricsServer, Report, serve_metrics
from penstock.host.output import Restorer
from penstock.host.postprocess.delivery import make_delivery
from penstock.host.postprocess.output import Rows
from penstock.host.prepare import check
from penstock.host.scheduling.batcher import Batcher
from penstock.host.session import Running, Session
from penstock.host.sides import Arrival, Read, filtered, read_side
from penstock.host.stats import Stats
from penstock.query.plan import LEFT, RIGHT, JoinKind, JoinQuery
from penstock.rewrite.forms import join_form

#: Quantiles of the latency that a report has.
QUANTILES = (0.5, 0.95, 0.99)
#: Batches in the lanes at a time: while they are busy, tuples gather to larger batches.
MOST_BATCHES = 4


@dataclass(frozen=True, kw_only=True)
class Flow:
    """How rows flow through a join; none of it changes which rows come out.

    Parameters
    ----------
    latency_s : float
        Latency target in seconds. 0, the default, joins each batch before ``push`` returns.
    idle_s : float, optional
        Seconds of silence after which a feed no longer holds up the others.
    memory_bytes : int, optional
        Main memory that windows, waiting rows and results may take; ``push`` waits beyond it.
    push_timeout_s : float
        Seconds that ``push`` waits for room.
    running : Running
        How the lanes work.
    """

    latency_s: float = 0.0
    idle_s: float | None = None
    memory_bytes: int | None = None
    push_timeout_s: float = 60.0
    running: Running = field(default_factory=Running)

    def __post_init__(self) -> None:
        if not self.latency_s >= 0:
            raise UsageError(f"latency_s must not be negative, not {self.latency_s!r}")
        for name in ("idle_s", "memory_bytes", "push_timeout_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} must be above 0, not {value!r}")


class JoinStream:
    """A running join.

    Parameters
    ----------
    query : JoinQuery
    schemas : mapping of table name to pyarrow.Schema
    device : Device or sequence of Device
        All of their lanes share the work.
    disorder : int, timedelta, or mapping of source to either
        How far a row's time may lie below the largest time before it in its feed; rows further
        below are late. An integer is in the unit of the source's time column.
    band : bool
        False switches band form off.
    close_device : bool
        Whether closing the stream closes the devices.
    flow : Flow, optional
        Latency, memory, order, policy.
    trace : bool
        Whether ``trace`` keeps what the lanes did when.

    Notes
    -----
    Any thread may call any method. The latency target works as in paper 1, section 4: see
    :class:`~penstock.host.scheduling.batcher.Batcher`.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        device: Device | Sequence[Device],
        *,
        disorder: Span | Mapping[str, Span] = 0,
        band: bool = True,
        close_device: bool = False,
        flow: Flow | None = None,
        trace: bool = False,
    ) -> None:
        query.require_pairs("a stream")
        self.query = query
        self.devices = [device] if isinstance(device, Device) else list(device)
        if not self.devices:
            raise UsageError("a stream needs at least one device")
        self.close_device = close_device
        self.flow = flow or Flow()
        self.trace = Trace(trace)
        self.budget = Budget(self.flow.memory_bytes)
        self.stats = Stats("+".join(d.name for d in self.devices))
        self.stats.late = {s.alias: 0 for s in query.sides}
        self.schemas = {s.side: schemas[s.table] for s in query.sides}
        self.restorer = Restorer(query, self.schemas)
        check_names(disorder, query.sides)
        self.inputs = {s.side: Source(s, disorder) for s in query.sides}
        self.feeds = {
            side: Feeds(own.side.alias, own.disorder, self.flow.idle_s)
            for side, own in self.inputs.items()
        }
        for feeds in self.feeds.values():
            feeds.register(ONLY, time.monotonic())
        self._forms = {w: join_form(query.predicate, w, band=band) for w in (LEFT, RIGHT)}
        self._ids = TupleIds()
        self.latency = Latency()
        self._arrived = {s.alias: 0 for s in query.sides}
        self._largest: dict[str, int] = {}
        self._pending = Pending()
        self._timeless: list[Arrival] = []
        self._batcher = Batcher(self.flow.latency_s)
        self._results: deque[pa.RecordBatch] = deque()
        self._late: dict[str, list[pa.RecordBatch]] = {s.alias: [] for s in query.sides}
        self._lock = threading.RLock()
        self._closed = False
        self._told: Promises = {}
        self._session = Session(
            open_engine(query, self._forms, self._number),
            make_delivery(query, self.restorer, self.schemas),
            self.devices,
            self.stats,
            query.names,
            self._collect,
            self._progressed,
            self.flow.running,
            self.trace,
        )
        self._clock = Clock(self._tick) if self.flow.latency_s or self.flow.idle_s else None

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self.restorer.schema

    @property
    def window_rows(self) -> int:
        """Rows that later ones may still meet."""
        return self._session.engine.rows

    def register(self, source: str, feed: str, disorder: Span | None = None) -> None:
        """Announce a feed of a source: the source is complete up to what all of them promise.

        The first registered feed takes the place of the unnamed one that a source starts with.

        Parameters
        ----------
        source : str
            Alias or table name of one side.
        feed : str
            Its name, not empty.
        disorder : int or timedelta, optional
            Of this feed; the source's by default.

        Raises
        ------
        UsageError
            The source is unknown, or has such a feed already.
        """
        own = self._open_input(source)
        if feed == ONLY:
            raise UsageError("a feed needs a name that is not empty")
        span = None if disorder is None else own.span(disorder)
        with self._lock:
            feeds = self.feeds[own.side.side]
            feeds.register(feed, time.monotonic(), span)
            if ONLY in feeds.names:
                feeds.deregister(ONLY)

    def deregister(self, source: str, feed: str) -> None:
        """A feed has ended, and no longer holds up the others.

        Raises
        ------
        UsageError
            The source or the feed is unknown.
        """
        own = self._open_input(source)
        with self._lock:
            self.feeds[own.side.side].deregister(feed)
            self._advanced()

    def push(self, source: str, batch: pa.RecordBatch | pa.Table, *, feed: str = ONLY) -> None:
        """Give the next rows of a source, in order of arrival.

        Parameters
        ----------
        source : str
            Alias or table name of one side.
        batch : RecordBatch or Table
        feed : str
            Which of the source's feeds they come from, if it has registered some.

        Raises
        ------
        UsageError
            The source or feed is unknown, or the stream is closed.
        SchemaError
            The batch lacks a column, or a column changed its type.
        DataError
            A value breaks a promise made about it.
        OverloadError
            The rows would not fit into the memory budget for too long.
        DeviceError
            No device could run a task. The stream cannot go on then; close it.

        Notes
        -----
        Nothing of the batch has been taken if it raises any of these but DeviceError.
        """
        own = self._open_input(source)
        batch = _one_batch(batch, self.schemas[own.side.side], source)
        read = read_side(self.query, own.side, batch)
        self.budget.wait_for(batch.nbytes, self.flow.push_timeout_s)
        with self._lock:
            self._session.check()
            self._take(own, batch, read, feed)
        if not self.flow.latency_s:
            self._session.drain()
        elif self._clock is not None:
            self._clock.wake()

    def advance(self, source: str, time_: Moment, *, feed: str = ONLY) -> None:
        """Signal that no later row of the source, or of one of its feeds, has a time below this.

        Parameters
        ----------
        source : str
        time_ : int or datetime
            An integer is in the unit of the source's time column. A signal older than an earlier
            one changes nothing.
        feed : str
            Which of the source's feeds promises it.
        """
        own = self._open_input(source)
        with self._lock:
            moment = own.moment(time_)
            self.feeds[own.side.side].signal(feed, moment, time.monotonic())
            self._advanced()
        if not self.flow.latency_s:
            self._session.drain()

    def poll(self) -> pa.Table:
        """The joined rows since the last call, each once; in order only if that was asked for.

        Raises
        ------
        DeviceError
            No device could run a task. Rows that came before have been given.
        """
        found = []
        while self._results:
            found.append(self._results.popleft())
        self.budget.add("results", -sum(batch.nbytes for batch in found))
        if not found:
            self._session.check()
        return pa.Table.from_batches(found, self.schema)

    def wait(self, rows: int, timeout_s: float) -> bool:
        """Wait until at least so many rows can be polled; whether there are."""
        return self.wait_for(
            lambda: sum(b.num_rows for b in list(self._results)) >= rows, timeout_s
        )

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something that depends on the join's progress is true; whether it is.

        Raises
        ------
        DeviceError
            The join has failed.
        """
        return self._session.wait_for(condition, timeout_s)

    def report(self) -> Report:
        """What the join has done and holds, for people and for metrics."""
        with self._lock:
            promises = self._promises()
            lag = {
                self.inputs[side].side.alias: largest - promises[side]
                for side, largest in self._largest.items()
                if NEVER < promises[side] < FOREVER
            }
            arrived, late = dict(self._arrived), dict(self.stats.late)
        return Report(
            arrived=arrived,
            late=late,
            rows=self.stats.rows,
            evaluations=self.stats.pairs_evaluated,
            pairs_in_window=self.stats.pairs_in_window,
            window_rows=self.window_rows,
            memory_bytes=self.budget.parts(),
            watermark_lag=lag,
            latency_s={share: self.latency.quantile(share) for share in QUANTILES},
            lanes=self._session.lane_reports(),
        )

    def serve_metrics(self, port: int = 0) -> MetricsServer:
        """Give metrics to Prometheus and to ``penstock top``, until the result is closed.

        Parameters
        ----------
        port : int
            On this machine's loopback; 0 takes a free one.

        Raises
        ------
        UsageError
            The port is taken.
        """
        return serve_metrics(self.report, port)

    def failures(self) -> dict[str, int]:
        """Failed tasks per lane; each was run again."""
        return dict(self._session.dispatcher.failures)

    def parked(self) -> list[str]:
        """Lanes that are out of service because they failed too often, or hang."""
        return self._session.dispatcher.parked

    def flush(self) -> None:
        """Join everything that has been pushed, and wait until its rows can be polled."""
        with self._lock:
            self._cut(everything=True)
        self._session.drain()

    def late(self) -> dict[str, pa.Table]:
        """Rows per source that came too late and joined nothing, since the last call.

        ``stats.late`` keeps their number.
        """
        found = {}
        with self._lock:
            for own in self.inputs.values():
                alias = own.side.alias
                found[alias] = pa.Table.from_batches(self._late[alias], self.schemas[own.side.side])
                self._late[alias] = []
        return found

    def close(self) -> pa.Table:
        """End both sources, and give the rows not yet polled. A second call gives none."""
        with self._lock:
            if self._closed:
                return self.poll()
            self._closed = True
        if self._clock is not None:
            self._clock.close(self.flow.running.timeout_s)
        try:
            with self._lock:
                self._cut(everything=True)
                for feeds in self.feeds.values():
                    feeds.end()
                self._session.step([], self._promises())
            self._session.drain()
        finally:
            self._session.close()
            if self.close_device:
                for device in self.devices:
                    device.close()
            self.stats.stop()
        return self.poll()

    def __enter__(self) -> JoinStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _take(self, own: Source, batch: pa.RecordBatch, read: Read, feed: str) -> None:
        """Admit rows, and join them if there is no latency target."""
        rows = read.timed
        side, feeds = own.side.side, self.feeds[own.side.side]
        before = copy.deepcopy(feeds)
        late = np.zeros(0, dtype=np.int64)
        try:
            if own.side.time is not None:
                on_time = feeds.admit(feed, rows.time, time.monotonic())
                late = rows.row[~on_time]
                rows = rows if on_time.all() else rows.pick(np.flatnonzero(on_time))
            new = Arrival.of(self.query, side, filtered(own.side, rows), batch)
            for window, form in self._forms.items():
                check(form, new.rows.columns, len(new.rows), window=window == side)
            alone = Arrival.of(self.query, side, filtered(own.side, read.timeless), batch)
            ids = self._number(len(new.rows) + len(alone.rows))
            self._pending.add(new.numbered(ids[: len(new.rows)]))
            if len(alone.rows) and self.query.kind is not JoinKind.INNER:
                self._timeless.append(alone.numbered(ids[len(new.rows) :]))
            self._batcher.arrived(len(ids))
            if not self.flow.latency_s:
                self._cut(everything=True)
        except PenstockError:
            self.feeds[side] = before
            raise
        self.budget.set("waiting", self._pending.nbytes)
        self._arrived[own.side.alias] += batch.num_rows
        if own.side.time is not None and len(read.timed):
            largest = int(read.timed.time.max())
            self._largest[side] = max(largest, self._largest.get(side, largest))
        if len(late):
            self._late[own.side.alias].append(batch.take(pa.array(late)))
            self.stats.late[own.side.alias] += len(late)

    def _cut(self, *, everything: bool = False) -> None:
        """Let a batch of the waiting tuples into the windows."""
        count = self._batcher.cut(time.monotonic(), everything=everything)
        timed = self.query.left.time is not None and self.query.right.time is not None
        arrivals = self._pending.take(count, grouped=timed)
        timeless, self._timeless = self._timeless, []
        self._session.step(arrivals, self._promises(), timeless)
        self.budget.set("waiting", self._pending.nbytes)
        self.budget.set("windows", self._session.nbytes)

    def _advanced(self) -> None:
        """Promises have changed: what they release need not wait for rows."""
        if not self.flow.latency_s:
            self._session.step([], self._promises())
            self.budget.set("windows", self._session.nbytes)
        elif self._clock is not None:
            self._clock.wake()

    def _tick(self, now: float) -> float | None:
        """What the clock does: cut what is due, and let time pass for silent feeds."""
        try:
            with self._lock:
                if self._closed:
                    return None
                due, promises = self._batcher.due(), self._promises()
                if self._session.outstanding >= MOST_BATCHES:
                    due = None  # until a batch is complete, which wakes the clock
                elif due is not None and due <= now:
                    self._cut()
                    due = self._batcher.due()
                elif due is None and promises != self._told:
                    self._session.step([], promises)
                    self.budget.set("windows", self._session.nbytes)
                    self._told = promises
                idle = [f.next_idle(now) for f in self.feeds.values()]
        except PenstockError:
            return None  # the session keeps it for the next call
        return min((moment for moment in (due, *idle) if moment is not None), default=None)

    def _open_input(self, source: str) -> Source:
        if self._closed:
            raise UsageError("the stream is closed; open a new one")
        for attribute in ("alias", "table"):
            found = [
                i
                for i in self.inputs.values()
                if getattr(i.side, attribute).lower() == source.lower()
            ]
            if len(found) == 1:
                return found[0]
        names = " and ".join(i.side.alias for i in self.inputs.values())
        raise UsageError(f"unknown source {source!r}; the query joins {names}")

    def _promises(self) -> Promises:
        """What no later row of a side can be below, rows that wait for their batch included."""
        now = time.monotonic()
        return {
            side: min(feeds.promise(now), self._pending.oldest(side))
            for side, feeds in self.feeds.items()
        }

    def _number(self, count: int) -> np.ndarray:
        """The next arrival numbers, of tuples that come now."""
        ids = self._ids.next(count)
        self.latency.arrived(ids, time.monotonic())
        return ids

    def _collect(self, rows: Rows) -> None:
        pairs = rows.later[rows.later != rows.earlier]  # others waited for their window to close
        self.latency.left(pairs, time.monotonic())
        self.budget.add("results", rows.batch.nbytes)
        self._results.append(rows.batch)

    def _progressed(self) -> None:
        if self._clock is not None:
            self._clock.wake()


def _one_batch(batch: pa.RecordBatch | pa.Table, schema: pa.Schema, source: str) -> pa.RecordBatch:
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
