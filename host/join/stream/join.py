"""Running joins: the calls that users make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from penstock import arguments
from penstock.errors import UsageError
from penstock.plan.group_query import require_closing
from penstock.plan.plan import plan
from penstock.plan.query import JoinQuery
from penstock.plan.window import TimeWindow

from ...device.base import Device, device_list
from ...emit.open_delivery import open_delivery
from ...execute.budget import Budget
from ...execute.room import Room
from ...execute.stats import Stats
from ...execute.trace import Trace
from ...metrics import Latency, Report
from ...rows.sides import Read, read_side
from ...windows.engine import WindowEngine
from ...windows.source import Span, StreamSource
from ..filtering import with_filter
from ..session import Session
from ..step import Frontier
from .flow import Flow
from .intake import Intake, SessionIntake
from .outlet import Outlet
from .pace import Pace
from .serial import SerialStream


class JoinStream(SerialStream[pa.Table]):
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
    The latency target works as in paper 1, section 4: see
    :class:`~penstock.host.execute.batcher.Batcher`.
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
        self.devices = device_list(device)
        for one in self.devices:
            arguments.instance(Device, "an open device")("each of device", one)
        if not self.devices:
            raise UsageError("a stream needs at least one device")
        self.schemas = {s.side: schemas[s.table] for s in query.sides}
        self.plan = with_filter(plan(query, band=band), self.schemas, self.devices)
        self.query = query = self.plan.query
        require_closing(query)
        self.close_device = close_device
        self.flow = flow or Flow()
        self.trace = Trace(trace)
        self.budget = Budget(self.flow.memory_bytes, rows_gather=self.flow.latency_s > 0)
        self._stats = Stats.for_devices(self.devices)
        self.latency = Latency()
        intake = Intake if query.sessions is None else SessionIntake
        self._intake = intake(
            query,
            self.schemas,
            [one.form for one in self.plan.evaluations.values()],
            self.latency,
            disorder=disorder,
            idle_s=self.flow.idle_s,
        )
        self._stats.late = self._intake.late
        self._delivery = open_delivery(self.plan, self.schemas)
        self._outlet = Outlet(self.budget, self.latency, self._delivery.schema)
        lanes = sum(device.lanes for device in self.devices)
        depth, schema = self.flow.running.depth, self._delivery.schema
        room = Room(self.budget, schema, lanes, depth, lambda: self._outlet.rows)
        self._session = Session(
            self.plan,
            WindowEngine(self.plan, self._intake.number),
            self._delivery,
            self.devices,
            self._stats,
            self._outlet.collect,
            lambda: self._pace.ended(),
            self.flow.running,
            self.trace,
            room,
            is_awaited=not self.flow.latency_s,
        )
        self._pace = Pace(
            self._intake, self._session, self.budget, self.flow, lambda: self._thread.wake()
        )
        super().__init__(
            self.schemas, self.flow, self.budget, self._intake, self._outlet, self._pace.tick
        )

    @property
    def stats(self) -> Stats:
        return self._stats

    @property
    def window_rows(self) -> int:
        """Number of rows that later rows may still meet."""
        return self._session.engine.rows + self._intake.kept_rows

    def complete_below(self, alias: str) -> int | None:
        """Return the time of a source below which no output row is to come, once all is flushed.

        In the unit of the window; None for windows that are not of time.
        """
        self._require_own_process()
        side = self._intake.aliased(alias).side.side
        if not isinstance(self.query.window, TimeWindow):
            return None
        watermarks = self._thread.call(self._intake.watermarks)
        return Frontier(self.query, watermarks).complete_below(side)

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

    def _report(self) -> Report:
        window = None if self.query.sessions else self.query.window
        return Report(
            arrived=dict(self._intake.arrived),
            late=dict(self._intake.late),
            rows=self._stats.rows,
            evaluations=self._stats.pairs_evaluated,
            pairs_pruned=self._stats.pairs_pruned,
            pairs_in_window=self._stats.pairs_in_window,
            window_rows=self.window_rows,
            memory_bytes=self.budget.parts(),
            watermark_lag=self._intake.lag(),
            unit=self._intake.unit,
            latency_s=self.latency.quantiles(),
            lanes=self._session.executor.lane_reports(),
            clock=self._intake.clock(window) if isinstance(window, TimeWindow) else None,
            memory_limit=self.budget.limit,
        )

    def failures(self) -> dict[str, int]:
        return dict(self._session.executor.dispatcher.failures)

    def parked(self) -> list[str]:
        return self._session.executor.dispatcher.parked

    # -- hooks of the calls -----------------------------------------------------------------------

    def _read(self, source: StreamSource, batch: pa.RecordBatch) -> Read:
        return read_side(self._intake.query, source.side, batch)

    def _take(self, source: StreamSource, batch: pa.RecordBatch, read: Read, feed: str) -> None:
        judged = self._intake.judge(source, batch, read, feed)
        try:
            self._pace.arrived(self._intake.take_in(judged))
        except Exception as error:  # some of it may have been done
            self._session.fail(error)
            raise

    def _advanced(self) -> None:
        self._pace.advanced()

    def _check(self) -> None:
        self._session.check()

    def _fail(self, error: Exception) -> None:
        self._session.fail(error)

    def _settle(self) -> None:
        if not self.flow.latency_s:
            self._session.drain()

    def _cut_all(self) -> None:
        if not self._closed:
            self._pace.cut(everything=True)

    def _drain(self, timeout_s: float) -> None:
        self._session.drain(timeout_s)

    def _last_steps(self) -> list[Callable[[], None]]:
        owned = [device.close for device in self.devices] if self.close_device else []
        session = self._session
        return [
            self._pace.stop,
            self._pace.finish,
            session.drain,
            session.close,
            *owned,
            self._stats.stop,
        ]
