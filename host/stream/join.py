"""The calls of a running join."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from penstock.errors import UsageError
from penstock.host.budget import Budget
from penstock.host.completeness.feeds import ONLY
from penstock.host.completeness.opening import open_engine, open_forms
from penstock.host.completeness.source import Moment, Source, Span
from penstock.host.device.base import Device
from penstock.host.lanes.trace import Trace
from penstock.host.metrics import Latency, MetricsServer, Report, serve_metrics
from penstock.host.postprocess.opening import open_delivery
from penstock.host.session import Session
from penstock.host.sides import read_side
from penstock.host.stats import Stats
from penstock.host.stream.flow import Flow
from penstock.host.stream.intake import Intake, one_batch
from penstock.host.stream.outlet import Outlet
from penstock.host.stream.pace import Pace
from penstock.query.closing import require_closing
from penstock.query.plan import JoinQuery

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
        require_closing(query)
        self.query = query
        self.devices = [device] if isinstance(device, Device) else list(device)
        if not self.devices:
            raise UsageError("a stream needs at least one device")
        self.close_device = close_device
        self.flow = flow or Flow()
        self.trace = Trace(trace)
        self.budget = Budget(self.flow.memory_bytes)
        self.stats = Stats("+".join(d.name for d in self.devices))
        self.schemas = {s.side: schemas[s.table] for s in query.sides}
        self.latency = Latency()
        forms = open_forms(query, band=band)
        self._intake = Intake(
            query,
            self.schemas,
            forms,
            self.latency,
            disorder=disorder,
            idle_s=self.flow.idle_s,
        )
        self.stats.late = self._intake.late
        self._lock = threading.RLock()
        self._closed = False
        self._delivery = open_delivery(query, self.schemas)
        self._outlet = Outlet(self.budget, self.latency, self._delivery.schema)
        self._session = Session(
            open_engine(query, forms, self._intake.number),
            self._delivery,
            self.devices,
            self.stats,
            query.names,
            self._outlet.collect,
            lambda: self._pace.ended(),
            self.flow.running,
            self.trace,
        )
        self._pace = Pace(self._intake, self._session, self.budget, self.flow, self._lock)

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
        own = self._open_input(source)
        with self._lock:
            self._intake.register(own, feed, disorder)

    def deregister(self, source: str, feed: str) -> None:
        """A feed has ended, and no longer holds up the others.

        Raises
        ------
        UsageError
            The source or the feed is unknown.
        """
        own = self._open_input(source)
        with self._lock:
            self._intake.deregister(own, feed)
            self._pace.advanced()

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
        batch = one_batch(batch, self.schemas[own.side.side], source)
        read = read_side(self.query, own.side, batch)
        self.budget.wait_for(self._intake.bytes_of(own, batch), self.flow.push_timeout_s)
        with self._lock:
            self._session.check()
            with self._intake.admitting(own, batch, read, feed) as count:
                self._pace.arrived(count)
        self._pace.settle()

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
            self._intake.signal(own, feed, time_)
            self._pace.advanced()
        self._pace.settle()

    def poll(self) -> pa.Table:
        """The joined rows since the last call, each once; in order only if that was asked for.

        Raises
        ------
        DeviceError
            No device could run a task. Rows that came before have been given.
        """
        found = self._outlet.take()
        if found and self.budget.limit is not None:
            self._pace.progressed()  # there may be room for further results
        if not found:
            self._session.check()
        return pa.Table.from_batches(found, self.schema)

    def wait(self, rows: int, timeout_s: float) -> bool:
        """Wait until at least so many rows can be polled; whether there are."""
        return self.wait_for(lambda: self._outlet.rows >= rows, timeout_s)

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
            lag = self._intake.lag()
            arrived, late = dict(self._intake.arrived), dict(self._intake.late)
        return Report(
            arrived=arrived,
            late=late,
            rows=self.stats.rows,
            evaluations=self.stats.pairs_evaluated,
            pairs_pruned=self.stats.pairs_pruned,
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
            self._pace.cut(everything=True)
        self._session.drain()

    def late(self) -> dict[str, pa.Table]:
        """Rows per source that came too late and joined nothing, since the last call.

        ``stats.late`` keeps their number.
        """
        with self._lock:
            return self._intake.late_rows()

    def close(self) -> pa.Table:
        """End both sources, and give the rows not yet polled. A second call gives none."""
        with self._lock:
            if self._closed:
                return self.poll()
            self._closed = True
        self._pace.stop()
        try:
            with self._lock:
                self._pace.finish()
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

    def _open_input(self, source: str) -> Source:
        if self._closed:
            raise UsageError("the stream is closed; open a new one")
        return self._intake.find(source)
