"""Stream whose rows a driver deals to workers, wherever these are: in its own thread."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock import arguments

from ..emit.groups.closing import Limit
from ..execute import promptness
from ..execute.budget import Budget
from ..grouping.intake import RowIntake
from ..join.stream.flow import Flow
from ..join.stream.outlet import Outlet
from ..join.stream.running_query import Rows
from ..join.stream.serial import SerialStream
from ..join.stream.thread import Inbox
from ..metrics import Latency, Report
from .driving import StreamDriver
from .reporting import report_of


class DealingStream(SerialStream[Rows]):
    """A running query whose rows and promises go to the workers of a driver.

    Parameters
    ----------
    driver : StreamDriver
    intake : RowIntake
    output : pyarrow.Schema
        Of the rows that callers get.
    limit_of : callable
        Turns a low watermark into the limit below which output is complete; never falls.
    flow : Flow
    memory_bytes : int or None
        That this process may hold; None for no limit.
    """

    def __init__(
        self,
        driver: StreamDriver,
        intake: RowIntake,
        output: pa.Schema,
        limit_of: Callable[[int], Limit],
        flow: Flow,
        memory_bytes: int | None,
    ) -> None:
        self.trace, self.latency = driver.trace, Latency()
        self._driver, self._parent = driver, driver.parent
        self._intake, self._limit_of = intake, limit_of
        #: Rows pushed to the parent of each feed, by its number.
        self._firsts: Counter[int] = Counter()
        self._limit: Limit = -math.inf
        self._error: Exception | None = None
        self._changes = 0
        budget = Budget(memory_bytes, rows_gather=flow.latency_s > 0)
        outlet = Outlet(budget, self.latency, output)
        inbox = self._prepare(flow, budget, outlet)
        driver.on_rows = self._on_rows
        self._relax = promptness.hold(flow.latency_s) if flow.latency_s else None
        super().__init__(intake.schemas, flow, budget, intake, outlet, self._tick, inbox)

    def _prepare(self, flow: Flow, budget: Budget, outlet: Outlet) -> Inbox[Any] | None:
        """Prepare what the stream's thread needs; returns its inbox, None for a plain one."""
        return None

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        self._require_own_process()
        arguments.seconds("timeout_s", timeout_s)
        self.budget.bells.wait_for(lambda: condition() or self._error is not None, timeout_s)
        self._check()
        return condition()

    # -- in the stream's thread -------------------------------------------------------------------

    def _push_on(self, feed: int, body: Any, nbytes: int, rows: int) -> None:
        """Push the next rows of a feed to the parent, which deals them."""
        self._parent.push(feed, self._firsts[feed], body, nbytes)
        self._firsts[feed] += rows

    def _changed(self) -> None:
        """Number a change that may complete output, to measure its latency."""
        self._changes += 1
        self.latency.arrived(np.array([self._changes]), time.monotonic())

    def _promise(self) -> bool:
        """Promise workers the low watermark if it completes output; returns whether it does."""
        watermark = self._time()
        limit = self._limit_of(watermark)
        if not limit > self._limit:
            return False
        self._limit = limit
        self._parent.promise(self._driver.feed, watermark)
        return True

    def _limit_now(self) -> Limit:
        return self._limit_of(self._time())

    def _time(self) -> int:
        """Return the low watermark of all sources."""
        return self._intake.time()

    @abstractmethod
    def _tick(self, now: float) -> float | None:
        """Do all due work; as for :class:`~penstock.host.join.stream.thread.StreamThread`."""

    @abstractmethod
    def _on_rows(self, number: int, batch: pa.RecordBatch) -> None:
        """Take output rows of a worker."""

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._driver.kill()
        self.budget.bells.ring()

    def _unhurry(self) -> None:
        """Let threads of the process change over as before the stream."""
        if self._relax is not None:
            self._relax()
            self._relax = None

    def _report_with(self, rows: int) -> Report:
        """Make the report, with the number of output rows so far."""
        intake = self._intake
        return report_of(
            self._driver,
            rows,
            self.budget.parts(),
            intake.arrived,
            intake.late,
            intake.lag(),
            self.latency.quantiles(),
            self.budget.limit,
            intake.unit,
        )
