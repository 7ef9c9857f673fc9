"""Running joins: the calls that users make."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa

from penstock import arguments
from penstock.errors import UsageError, memory_explained
from penstock.plan.plan import plan
from penstock.plan.query import JoinQuery

from ...device.base import Device, device_list
from ...emit.opening import open_delivery
from ...execute.budget import Budget
from ...execute.room import Room
from ...execute.stats import Stats
from ...execute.trace import Trace
from ...metrics import Latency, MetricsServer, Report, serve_metrics
from ...rows.sides import Read, read_side
from ...windows.feeds import ONLY
from ...windows.opening import open_engine
from ...windows.source import Moment, Source, Span
from ..session import Session
from .flow import Flow
from .intake import Intake, one_batch
from .outlet import Outlet
from .pace import Pace
from .thread import StreamThread

T = TypeVar("T")

#: Types in which rows are pushed.
_ROWS = (pa.RecordBatch, pa.Table)
#: Most batches that pushes may leave to the stream's thread without waiting.
MOST_POSTED = 128
#: Quantiles of latency in a report.
QUANTILES = (0.5, 0.95, 0.99)


class JoinStream:
    """A running join.

    Parameters
    ----------
    schemas : mapping of table name to pyarrow.Schema
    device : Device or sequence of Device
        All lanes of all devices share the work.
    disorder : int, timedelta, or mapping of source to either
        How far the time of a row may lie below the largest time before it in its feed; rows further
        below are late. An integer is in the unit of the source's time column.
    band : bool
        False switches the band form off.
    close_device : bool
        Whether closing the stream closes the devices.
    flow : Flow, optional
        Latency, memory, order, policy.
    trace : bool
        Whether ``trace`` records the work of the lanes.

    Notes
    -----
    Any thread may call any method; changes of the stream happen in a thread of its own, one call
    after the other. A call interrupted by an exception in its own thread has been done wholly or
    not at all; ``pushed`` tells which for batches. The latency target works as in paper 1, section
    4: see :class:`~penstock.host.execute.batcher.Batcher`.
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
        self.plan = plan(query, band=band)
        self.plan.require_closing()
        self.query = query
        self.devices = device_list(device)
        for one in self.devices:
            arguments.instance(Device, "an open device")("each of device", one)
        if not self.devices:
            raise UsageError("a stream needs at least one device")
        self.close_device = close_device
        self.flow = flow or Flow()
        self.trace = Trace(trace)
        self.budget = Budget(self.flow.memory_bytes, rows_gather=self.flow.latency_s > 0)
        self.stats = Stats.of(self.devices)
        self.schemas = {s.side: schemas[s.table] for s in query.sides}
        self.latency = Latency()
        self._intake = Intake(
            query,
            self.schemas,
            [one.form for one in self.plan.evaluations.values()],
            self.latency,
            disorder=disorder,
            idle_s=self.flow.idle_s,
        )
        self.stats.late = self._intake.late
        self._process = os.getpid()
        # Held briefly and by plain ``with``: an interrupt within cannot leave it taken.
        self._gate = threading.Lock()
        self._closed = False
        self._delivery = open_delivery(self.plan, self.schemas)
        self._outlet = Outlet(self.budget, self.latency, self._delivery.schema)
        self._session = Session(
            self.plan,
            open_engine(self.plan, self._intake.number),
            self._delivery,
            self.devices,
            self.stats,
            self._outlet.collect,
            lambda: self._pace.ended(),
            self.flow.running,
            self.trace,
            Room(
                self.budget,
                self._delivery.schema,
                sum(device.lanes for device in self.devices),
                self.flow.running.depth,
                lambda: self._outlet.rows,
            ),
            is_awaited=not self.flow.latency_s,
        )
        self._pace = Pace(
            self._intake, self._session, self.budget, self.flow, lambda: self._thread.wake()
        )
        self._thread = StreamThread(self._pace.tick)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._delivery.schema

    @property
    def window_rows(self) -> int:
        """Number of rows that later rows may still meet."""
        return self._session.engine.rows

    def register(self, source: str, feed: str, disorder: Span | None = None) -> None:
        """Register a feed of a source, whose watermark is the least of all its feeds.

        The first registered feed replaces the unnamed one that a source starts with.

        Parameters
        ----------
        source : str
            Alias or table name of one side.
        feed : str
            Name of the feed, not empty.
        disorder : int or timedelta, optional
            Disorder of this feed; the source's by default.

        Raises
        ------
        UsageError
            The source is unknown, or has such a feed already.
        """
        own = self._source(source)
        arguments.text("feed", feed)
        arguments.optional(arguments.span)("disorder", disorder)
        self._change(lambda: self._intake.register(own, feed, disorder))

    def deregister(self, source: str, feed: str) -> None:
        """End a feed, so that it no longer holds up the others.

        Raises
        ------
        UsageError
            The source or the feed is unknown.
        """
        own = self._source(source)
        arguments.text("feed", feed)

        def deregister() -> None:
            self._intake.deregister(own, feed)
            self._pace.advanced()

        self._change(deregister)

    def push(self, source: str, batch: pa.RecordBatch | pa.Table, *, feed: str = ONLY) -> None:
        """Push the next rows of a source, in order of arrival.

        Parameters
        ----------
        source : str
            Alias or table name of one side.
        batch : RecordBatch or Table
        feed : str
            Feed that the rows come from, if the source has registered any.

        Raises
        ------
        UsageError
            The source or feed is unknown, or the stream is closed.
        SchemaError
            The batch lacks a column, or a column changed its type.
        DataError
            A value breaks a promise of its column.
        OverloadError
            The memory budget had no room for the rows for too long.
        DeviceError
            No device could run a task. The stream cannot go on; close it.

        Notes
        -----
        After any of these errors except DeviceError, no row of the batch has been taken. After an
        interrupt, all or none have: :meth:`pushed` tells which.
        """
        own = self._source(source)
        arguments.text("feed", feed)
        arguments.instance(_ROWS, "a pyarrow.RecordBatch or Table")("batch", batch)
        with memory_explained():
            self._push(own, source, batch, feed)

    def _push(self, own: Source, source: str, batch: pa.RecordBatch | pa.Table, feed: str) -> None:
        batch = one_batch(batch, self.schemas[own.side.side], source)
        read = read_side(self.query, own.side, batch)
        if self._need_not_wait(own, batch, feed):
            return self._post(partial(self._take_posted, own, batch, read, feed))
        take_in = partial(self._take_in, own, batch, read, feed)
        deadline = time.monotonic() + self.flow.push_timeout_s
        while not self._change(take_in):
            self.budget.wait_for(self._intake.bytes_of(own, batch), deadline - time.monotonic())
        return self._settle()

    def pushed(self, source: str, feed: str | None = None) -> int:
        """Return how many batches of a source, or of one of its feeds, have been taken.

        All pushes called before have then been taken or refused, interrupted ones included.

        Raises
        ------
        UsageError
            The source is unknown.
        """
        self._require_own_process()
        own = self._intake.find(arguments.text("source", source))
        arguments.optional(arguments.text)("feed", feed)
        return self._thread.call(lambda: self._intake.taken(own, feed))

    def advance(self, source: str, time_: Moment, *, feed: str = ONLY) -> None:
        """Promise that no later row of a source, or of a feed of it, has a time below ``time_``.

        Parameters
        ----------
        time_ : int or datetime
            An integer is in the unit of the source's time column. A signal older than an earlier
            one changes nothing.
        feed : str
            Feed that promises, if the source has registered any.
        """
        own = self._source(source)
        arguments.text("feed", feed)
        arguments.moment("time_", time_)

        def signal() -> None:
            self._intake.signal(own, feed, time_)
            self._pace.advanced()

        self._change(signal)
        self._settle()

    def poll(self) -> pa.Table:
        """Return the joined rows since the last call, each once; in order only if so configured.

        Raises
        ------
        DeviceError
            No device could run a task. Earlier rows have been returned.
        """
        self._require_own_process()
        return self._outlet.take(self._session.check)

    def wait(self, rows: int, timeout_s: float) -> bool:
        """Wait until at least ``rows`` rows can be polled; return whether they can."""
        arguments.whole("rows", rows)
        return self.wait_for(lambda: self._outlet.rows >= rows, timeout_s)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition on the join's progress is true; return whether it is.

        Raises
        ------
        DeviceError
            The join has failed.
        """
        self._require_own_process()
        arguments.seconds("timeout_s", timeout_s)
        return self._session.wait_for(condition, timeout_s)

    def report(self) -> Report:
        """Return the join's counts and state, for people and for metrics."""
        self._require_own_process()
        return self._thread.call(self._report)

    def _report(self) -> Report:
        return Report(
            arrived=dict(self._intake.arrived),
            late=dict(self._intake.late),
            rows=self.stats.rows,
            evaluations=self.stats.pairs_evaluated,
            pairs_pruned=self.stats.pairs_pruned,
            pairs_in_window=self.stats.pairs_in_window,
            window_rows=self.window_rows,
            memory_bytes=self.budget.parts(),
            watermark_lag=self._intake.lag(),
            latency_s={share: self.latency.quantile(share) for share in QUANTILES},
            lanes=self._session.executor.lane_reports(),
        )

    def serve_metrics(self, port: int = 0) -> MetricsServer:
        """Serve metrics to Prometheus and to ``penstock top``, until the result is closed.

        Parameters
        ----------
        port : int
            Port on this machine's loopback; 0 takes a free one.

        Raises
        ------
        UsageError
            The port is taken.
        """
        return serve_metrics(self.report, arguments.whole("port", port, most=65_535))

    def failures(self) -> dict[str, int]:
        """Failed tasks per lane; each was run again."""
        return dict(self._session.executor.dispatcher.failures)

    def parked(self) -> list[str]:
        """Lanes that are out of service because they failed too often, or hang."""
        return self._session.executor.dispatcher.parked

    def flush(self) -> None:
        """Join all pushed rows, and wait until the output rows can be polled."""
        self._require_own_process()
        self._thread.call(self._cut_all)
        self._session.drain(self.flow.push_timeout_s)

    def late(self) -> dict[str, pa.Table]:
        """Return the late rows per source since the last call; they joined nothing.

        ``stats.late`` keeps their number.
        """
        self._require_own_process()
        self._thread.call(_nothing)  # waits until posted batches are judged
        return self._intake.late_rows()

    def close(self) -> pa.Table:
        """End both sources, and return the rows not yet polled. A second call returns none.

        After an interrupt the stream closes all the same, and the next call waits for the end.
        """
        self._require_own_process()
        error = self._thread.call(self._close)
        self._thread.join(self.flow.running.timeout_s)
        if error is not None:
            raise error
        return self.poll()

    def __enter__(self) -> JoinStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _require_own_process(self) -> None:
        """Refuse a forked process, which has no threads of the stream."""
        if os.getpid() != self._process:
            raise UsageError(
                f"the stream belongs to process {self._process}, and this one was forked from it; "
                "open a stream of its own here, or use it there"
            )

    def _source(self, name: str) -> Source:
        self._require_own_process()
        if self._closed:
            raise _closed()
        return self._intake.find(arguments.text("source", name))

    def _change(self, do: Callable[[], T]) -> T:
        """Call ``do`` in the stream's thread, unless the stream is closed by then."""

        def unless_closed() -> T:
            if self._closed:
                raise _closed()
            return do()

        return self._thread.call(unless_closed)

    def _need_not_wait(self, own: Source, batch: pa.RecordBatch, feed: str) -> bool:
        """Whether a batch will certainly be taken, so that its push need not wait."""
        if not self.flow.latency_s or self._thread.posted >= MOST_POSTED:
            return False
        self._session.check()
        count = self._intake.bytes_of(own, batch)
        is_free = self.budget.is_little(count) and self.budget.fits(MOST_POSTED * count)
        return is_free and self._intake.cannot_fail(own, feed)

    def _post(self, take: Callable[[], None]) -> None:
        """Post a batch to the stream's thread, unless the stream is closed by then."""
        with self._gate:
            if self._closed:
                raise _closed()
            self._thread.post(take)

    def _take_posted(self, own: Source, batch: pa.RecordBatch, read: Read, feed: str) -> None:
        try:
            self._pace.arrived(self._intake.take_in(self._intake.judge(own, batch, read, feed)))
        except Exception as error:  # no caller waits: the next call raises it
            self._session.fail(error)

    def _take_in(self, own: Source, batch: pa.RecordBatch, read: Read, feed: str) -> bool:
        """Take a batch if there is room for it; return whether there is."""
        self._session.check()
        if not self.budget.fits(self._intake.bytes_of(own, batch)):
            return False
        judged = self._intake.judge(own, batch, read, feed)
        try:
            self._pace.arrived(self._intake.take_in(judged))
        except Exception as error:  # some of it may have been done
            self._session.fail(error)
            raise
        return True

    def _settle(self) -> None:
        """Wait until all rows have been joined, if there is no latency target."""
        if not self.flow.latency_s:
            self._session.drain()

    def _cut_all(self) -> None:
        if not self._closed:
            self._pace.cut(everything=True)

    def _close(self) -> Exception | None:
        """Join the remaining rows and end all threads; return the error, only once."""
        if self._closed:
            return None
        with self._gate:  # no batch is posted after this
            self._closed = True
        self._thread.do_posted()
        self.budget.lifted = True  # the last rows leave at once
        self._pace.stop()
        failed = None
        for step in (self._pace.finish, self._session.drain, self._session.close, *self._owned()):
            try:
                step()
            except Exception as error:  # the other steps must still be done
                failed = failed or error
        self.stats.stop()
        self._thread.end()
        return failed

    def _owned(self) -> list[Callable[[], None]]:
        """Return the functions that close the devices owned by the stream."""
        return [device.close for device in self.devices] if self.close_device else []


def _nothing() -> None:
    """Do nothing: a call that only waits for earlier ones."""


def _closed() -> UsageError:
    return UsageError("the stream is closed; open a new one")
