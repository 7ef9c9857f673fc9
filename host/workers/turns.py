"""Stream on workers, in its own thread: input, timed work, and the end."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from penstock.errors import OverloadError

from ..emit.groups.closing import Limit
from ..execute import promptness
from ..execute.budget import LOOK_S, RESULTS, Budget
from ..grouping.event_times import EventTimes, read_times
from ..join.stream.outlet import Outlet
from ..join.stream.running_query import Rows
from ..join.stream.serial import SerialStream
from ..metrics import Latency, Report
from ..windows.source import Span, StreamSource
from .cut_clock import CutClock
from .dealt import packed, pieces, projected
from .opening import Opened
from .points import reached
from .reporting import report_of
from .results import Gathering, Tally
from .slabs import Slabs
from .stream_waits import BellInbox

#: Bytes that this process may hold of batches and results where no budget is given.
_MEMORY_BYTES = 1 << 30
#: Seconds between looks at whether all workers are there; their ends are noticed at once.
_CHECK_S = 0.25


class WorkerTurns(SerialStream[Rows]):
    """Work of a stream on workers in its own thread; :class:`WorkerStream` adds the calls.

    Parameters
    ----------
    opened : Opened
        Owned.
    disorder : int, timedelta, or mapping of source to either
    """

    def __init__(self, opened: Opened, disorder: Span | Mapping[str, Span]) -> None:
        flow = opened.flow
        self.trace = opened.driver.trace
        self.latency = Latency()
        self._opened, self._driver = opened, opened.driver
        self._parent = opened.driver.parent
        self._ordered = flow.running.ordered
        work = opened.work
        self._intake = work.intake(opened.driver.job.schemas, disorder=disorder, idle_s=flow.idle_s)
        limit = flow.memory_bytes or _MEMORY_BYTES
        budget = Budget(limit, rows_gather=flow.latency_s > 0)
        outlet = Outlet(budget, self.latency, work.output)
        self._gathering = Gathering(outlet, work.output, self._ordered)
        self._tally = Tally()
        budget.watch(RESULTS, self._tally.nbytes)
        self._cuts = CutClock(self._parent, self._tally, opened.checkpoint, flow.latency_s, limit)
        #: For rows that stay until a record covers them; others go as soon as they are dealt.
        self._slabs = None if opened.checkpoint is None else Slabs()
        # Rows dealt of each feed, by its number.
        self._firsts: Counter[int] = Counter()
        self._limit: Limit = -math.inf
        self._error: Exception | None = None
        self._changes = 0
        #: Number of the last cut whose end callers have seen.
        self._seen = self._parent.committed
        self._check_at = 0.0
        self._is_stopped = self._is_started = False
        self._relax = promptness.hold(flow.latency_s) if flow.latency_s else None
        self._restore()
        driver = self._driver
        driver.on_rows = self._on_rows
        self._inbox = BellInbox(
            opened.bell,
            lambda: self._is_started and driver.is_ready(self._may_receive()),
            self._look_soon,
        )
        super().__init__(
            self._intake.schemas, flow, budget, self._intake, outlet, self._tick, self._inbox
        )

    def _restore(self) -> None:
        """Restore the intake and the output rows that wait from the record."""
        admission = self._driver.admission
        if admission is None:
            return
        self._intake.restore(admission["intake"])
        self._firsts.update({int(feed): n for feed, n in admission["firsts"].items()})
        self._limit = self._limit_now()
        for number, batches in self._driver.recorded_rows.items():
            for batch in batches:
                self._tally.add(number, batch)

    def _start(self) -> None:
        self._driver.start()
        self._is_started = True

    # -- input ------------------------------------------------------------------------------------

    def _read(self, source: StreamSource, batch: pa.RecordBatch) -> EventTimes:
        return read_times(source.side, batch)

    def _need_not_wait(self, source: StreamSource, batch: pa.RecordBatch, feed: str) -> bool:
        return False  # the call is short: workers fold

    def _take(
        self, source: StreamSource, batch: pa.RecordBatch, read: EventTimes, feed: str
    ) -> None:
        reached("push")
        judged = self._intake.judge(source, batch, read, feed)
        try:
            self._intake.take_in(judged)
            while self._intake.waits:
                self._deal(*self._intake.next_rows())
            self._advanced()
        except Exception as error:
            self._fail(error)
            raise

    def _deal(self, rows: pa.RecordBatch, number: int) -> None:
        for piece in pieces(projected(rows, self._dealt_schema(number))):
            body = packed(piece)
            kept = body if self._slabs is None else self._slabs.put(body)
            self._parent.push(number, self._firsts[number], kept, body.size)
            self._firsts[number] += piece.num_rows

    def _dealt_schema(self, feed: int) -> pa.Schema:
        return self._opened.work.dealt_schemas[feed % len(self._opened.work.dealt_schemas)]

    def _advanced(self) -> None:
        """Number a change, to measure latency, and promise workers its watermark."""
        self._changes += 1
        self._cuts.changed()
        self.latency.arrived(np.array([self._changes]), time.monotonic())
        self._promise()
        self.budget.set("waiting", self._parent.held_bytes)

    def _promise(self) -> None:
        """Promise workers the low watermark if it completes groups."""
        limit = self._limit_now()
        if limit > self._limit:
            self._limit = limit
            self._parent.promise(self._driver.feed, self._intake.time())
            self._gathering.note(self._cuts.raised(), self._changes)

    def _limit_now(self) -> Limit:
        return self._opened.work.limit(self._intake.time())

    # -- timed work -------------------------------------------------------------------------------

    def _tick(self, now: float) -> float | None:
        if self._error is not None or self._closed or not self._is_started:
            return None
        try:
            return self._tick_at(now)
        except Exception as error:  # raised at the next call
            self._fail(error)
            return None

    def _tick_at(self, now: float) -> float | None:
        if now >= self._check_at:
            self._check_at = now + _CHECK_S
            self._look(now)
        self._promise()
        self._cut_if_due(now)
        self._work(self._inbox.empty)
        due = [self._check_at, now + self._driver.sleep_s(), *self._intake.next_idle(now)]
        due += [] if self._may_receive() else [now + LOOK_S]
        return min([*due, math.inf if (cut := self._next_cut()) is None else cut])

    def _look(self, now: float) -> bool:
        """Restart the workers if one is lost; returns whether so, as rows are computed again."""
        if not self._driver.check(now):
            return False
        self._tally.drop(self._parent.committed + 1)
        return True

    def _look_soon(self, name: str) -> None:
        """Check the workers at the next turn, since a process has ended."""
        self._check_at = 0.0

    def _work(self, goes_on: Callable[[], bool]) -> bool:
        """Do all that is possible now; returns whether anything was done."""
        moved = False
        while self._driver.step(self._may_receive):
            moved = True
            self._note_cuts()
            if not goes_on():
                break
        self.budget.set("waiting", self._parent.held_bytes)
        return moved

    def _on_rows(self, number: int, batch: pa.RecordBatch) -> None:
        """Take output rows of a worker."""
        self._tally.add(number, batch)
        if self._opened.checkpoint is None:
            polled = self._parent.poll()
            assert polled is not None
            self._gathering.add(*polled)
            if not self._ordered:
                self._tally.drop(number)

    def _note_cuts(self) -> None:
        """Note the cuts that are over, and pass on the rows that they cover."""
        while self._seen < self._parent.committed:
            number = self._seen + 1
            if self._opened.checkpoint is None:
                self._gathering.over(number)
                self._tally.drop(number)
            else:
                self._gathering.left(
                    number, self._tally.rows(number) - self._tally.rows(number - 1)
                )
            self._cuts.ended()
            self._seen = number
            self.budget.bells.ring()

    def _may_receive(self) -> bool:
        """Whether there is room for results, or polling could not make any."""
        if self.budget.lifted or not self.budget.results_full:
            return True
        return not (self._outlet.rows or self._pollable_rows())

    def _pollable_rows(self) -> int:
        """Return how many rows of checkpoints can be polled."""
        if self._opened.checkpoint is None:
            return 0
        return self._tally.rows(None if self._opened.now else self._parent.committed)

    def _next_cut(self) -> float | None:
        return self._cuts.due

    def _cut_if_due(self, now: float) -> None:
        if (due := self._next_cut()) is not None and due <= now:
            self._cut()

    def _cut(self) -> None:
        self._cuts.began()
        firsts = {str(feed): n for feed, n in self._firsts.items()}
        self._parent.cut({"intake": self._intake.state(), "firsts": firsts})

    @abstractmethod
    def _check(self) -> None: ...

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._driver.kill()
        self.budget.bells.ring()

    # -- the end ----------------------------------------------------------------------------------

    def _last_steps(self) -> list[Callable[[], None]]:
        return [self._finish, self._driver.close, self._end_all]

    def _finish(self) -> None:
        """End the input, and wait for all output, under a last number."""
        if self._error is not None:
            raise self._error
        if not self._is_stopped:
            self._intake.end()
            self._promise()
        target = self._cuts.want()
        timeout_s = self.flow.running.timeout_s
        moved_at = time.monotonic()
        while self._seen < target:
            now = time.monotonic()
            if now > moved_at + timeout_s:
                raise OverloadError(
                    f"workers have done nothing for {timeout_s:g} s and have not ended; some of "
                    "the last rows are missing"
                )
            moved = self._look(now)
            self._cut_if_due(now)
            if self._work(lambda: True) or moved:
                moved_at = time.monotonic()
            if self._seen < target:
                self._inbox.wait(_CHECK_S)

    def _abandon(self) -> None:
        """Close everything after a start that failed."""
        self._closed = True
        self._end_all()
        self._thread.end()

    def _end_all(self) -> None:
        self._driver.kill()
        if self._relax is not None:
            self._relax()
            self._relax = None
        self._inbox.close()
        self._opened.close()
        self.budget.bells.ring()

    def _report(self) -> Report:
        return report_of(
            self._driver, self._intake, self.budget.parts(), self.latency, self._tally.rows_given
        )
