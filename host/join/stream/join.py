"""The calls of a running join."""

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

from ...device.base import Device
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

#: What rows are pushed as.
_ROWS = (pa.RecordBatch, pa.Table)
#: Batches that pushes have left to the stream's thread without waiting, at most.
MOST_POSTED = 128
#: Quantiles of the latency that a report has.
QUANTILES = (0.5, 0.95, 0.99)


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
    Any thread may call any method; what changes the stream happens in a thread of its own, one call
    after the other. A call that is interrupted by an exception in its own thread has been done
    wholly or not at all; ``pushed`` says of batches which. The latency target works as in paper 1,
    section 4: see :class:`~penstock.host.execute.batcher.Batcher`.
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
        self.devices = [device] if isinstance(device, Device) else list(device)
        for one in self.devices:
            arguments.instance(Device, "an open device")("each of device", one)
        if not self.devices:
            raise UsageError("a stream needs at least one device")
        self.close_device = close_device
        self.flow = flow or Flow()
        self.trace = Trace(trace)
        self.budget = Budget(self.flow.memory_bytes, rows_gather=self.flow.latency_s > 0)
        self.stats = Stats("+".join(d.name for d in self.devices))
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
        # Held for a moment and by plain ``with``: an interrupt within cannot leave it taken.
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
        own = self._source(source)
        arguments.text("feed", feed)
        arguments.optional(arguments.span)("disorder", disorder)
        self._change(lambda: self._intake.register(own, feed, disorder))

    def deregister(self, source: str, feed: str) -> None:
        """A feed has ended, and no longer holds up the others.

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
        Nothing of the batch has been taken if it raises any of these but DeviceError. If it is
        interrupted, all or nothing has: :meth:`pushed` says which.
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
        """How many batches of a source, or of one of its feeds, have been taken.

        Every push that was called before has been decided: also one that was interrupted.

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
        own = self._source(source)
        arguments.text("feed", feed)
        arguments.moment("time_", time_)

        def signal() -> None:
            self._intake.signal(own, feed, time_)
            self._pace.advanced()

        self._change(signal)
        self._settle()

    def poll(self) -> pa.Table:
        """The joined rows since the last call, each once; in order only if that was asked for.

        Raises
        ------
        DeviceError
            No device could run a task. Rows that came before have been given.
        """
        self._require_own_process()
        return self._outlet.take(self._session.check)

    def wait(self, rows: int, timeout_s: float) -> bool:
        """Wait until at least so many rows can be polled; whether there are."""
        arguments.whole("rows", rows)
        return self.wait_for(lambda: self._outlet.rows >= rows, timeout_s)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something that depends on the join's progress is true; whether it is.

        Raises
        ------
        DeviceError
            The join has failed.
        """
        self._require_own_process()
        arguments.seconds("timeout_s", timeout_s)
        return self._session.wait_for(condition, timeout_s)

    def report(self) -> Report:
        """What the join has done and holds, for people and for metrics."""
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
        return serve_metrics(self.report, arguments.whole("port", port, most=65_535))

    def failures(self) -> dict[str, int]:
        """Failed tasks per lane; each was run again."""
        return dict(self._session.executor.dispatcher.failures)

    def parked(self) -> list[str]:
        """Lanes that are out of service because they failed too often, or hang."""
        return self._session.executor.dispatcher.parked

    def flush(self) -> None:
        """Join everything that has been pushed, and wait until its rows can be polled."""
        self._require_own_process()
        self._thread.call(self._cut_all)
        self._session.drain(self.flow.push_timeout_s)

    def late(self) -> dict[str, pa.Table]:
        """Rows per source that came too late and joined nothing, since the last call.

        ``stats.late`` keeps their number.
        """
        self._require_own_process()
        self._thread.call(_nothing)  # what was posted before has been judged
        return self._intake.late_rows()

    def close(self) -> pa.Table:
        """End both sources, and give the rows not yet polled. A second call gives none.

        If it is interrupted the stream closes all the same, and the next call goes on waiting for
        that.
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
        """Refuse a process that was forked: the stream's threads are not there."""
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
        """Do something in the stream's thread, unless the stream is closed by then."""

        def unless_closed() -> T:
            if self._closed:
                raise _closed()
            return do()

        return self._thread.call(unless_closed)

    def _need_not_wait(self, own: Source, batch: pa.RecordBatch, feed: str) -> bool:
        """Whether a batch can be taken for certain, so that its push need not see it done."""
        if not self.flow.latency_s or self._thread.posted >= MOST_POSTED:
            return False
        self._session.check()
        count = self._intake.bytes_of(own, batch)
        is_free = self.budget.is_little(count) and self.budget.fits(MOST_POSTED * count)
        return is_free and self._intake.cannot_fail(own, feed)

    def _post(self, take: Callable[[], None]) -> None:
        """Let the stream's thread take a batch, unless the stream is closed by then."""
        with self._gate:
            if self._closed:
                raise _closed()
            self._thread.post(take)

    def _take_posted(self, own: Source, batch: pa.RecordBatch, read: Read, feed: str) -> None:
        try:
            self._pace.arrived(self._intake.take_in(self._intake.judge(own, batch, read, feed)))
        except Exception as error:  # nobody waits for it: the next call raises it
            self._session.fail(error)

    def _take_in(self, own: Source, batch: pa.RecordBatch, read: Read, feed: str) -> bool:
        """Take a batch if there is room for it; whether there is."""
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
        """Without a latency target, wait until everything has been joined."""
        if not self.flow.latency_s:
            self._session.drain()

    def _cut_all(self) -> None:
        if not self._closed:
            self._pace.cut(everything=True)

    def _close(self) -> Exception | None:
        """Join what is left and end all threads; what went wrong, once."""
        if self._closed:
            return None
        with self._gate:  # what was posted before is in, and nothing is posted after
            self._closed = True
        self._thread.do_posted()
        self.budget.lifted = True  # the last rows leave at once
        self._pace.stop()
        failed = None
        for step in (self._pace.finish, self._session.drain, self._session.close, *self._owned()):
            try:
                step()
            except Exception as error:  # the others are to be done all the same
                failed = failed or error
        self.stats.stop()
        self._thread.end()
        return failed

    def _owned(self) -> list[Callable[[], None]]:
        """What closes the devices that are closed with the stream."""
        return [device.close for device in self.devices] if self.close_device else []


def _nothing() -> None:
    """A call that only waits for those before it."""


def _closed() -> UsageError:
    return UsageError("the stream is closed; open a new one")
