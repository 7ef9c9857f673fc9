"""Stream on workers, in its own thread: input, timed work, and the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import pyarrow as pa

from penstock.errors import OverloadError

from ..execute.budget import LOOK_S, RESULTS, Budget
from ..grouping.event_times import EventTimes, read_times
from ..join.stream.flow import Flow
from ..join.stream.outlet import Outlet
from ..join.stream.running_query import Rows
from ..metrics import Report
from ..windows.source import Span, StreamSource
from .cut_clock import CutClock
from .dealing import DealingStream
from .dealt import packed, pieces, projected
from .opening import Opened
from .points import reached
from .results import Gathering, Tally
from .slabs import Slabs
from .stream_waits import BellInbox

#: Bytes that this process may hold of batches and results where no budget is given.
_MEMORY_BYTES = 1 << 30
#: Seconds between looks at whether all workers are there; their ends are noticed at once.
_CHECK_S = 0.25


class WorkerTurns(DealingStream[Rows]):
    """Work of a stream on workers in its own thread; :class:`WorkerStream` adds the calls.

    Parameters
    ----------
    opened : Opened
        Owned.
    disorder : int, timedelta, or mapping of source to either
    """

    def __init__(self, opened: Opened, disorder: Span | Mapping[str, Span]) -> None:
        flow, work = opened.flow, opened.work
        self._opened = opened
        self._ordered = flow.running.ordered
        self._tally = Tally()
        #: For rows that stay until a record covers them; others go as soon as they are dealt.
        self._slabs = None if opened.checkpoint is None else Slabs()
        #: Number of the last cut whose end callers have seen.
        self._seen = opened.driver.parent.committed
        self._check_at = 0.0
        self._is_stopped = self._is_started = False
        intake = work.intake(disorder, flow.idle_s)
        limit = flow.memory_bytes or _MEMORY_BYTES
        super().__init__(opened.driver, intake, work.output, work.limit, flow, limit)

    def _prepare(self, flow: Flow, budget: Budget, outlet: Outlet) -> BellInbox:
        opened, tally = self._opened, self._tally
        assert budget.limit is not None
        self._gathering = Gathering(outlet, outlet.schema, self._ordered)
        budget.watch(RESULTS, tally.nbytes)
        self._cuts = CutClock(self._parent, tally, opened.checkpoint, flow.latency_s, budget.limit)
        self._restore()
        self._inbox = BellInbox(
            opened.bell,
            lambda: self._is_started and self._driver.is_ready(self._may_receive()),
            self._look_soon,
        )
        return self._inbox

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
            self._push_on(number, kept, body.size, piece.num_rows)

    def _dealt_schema(self, feed: int) -> pa.Schema:
        return self._opened.work.dealt_schemas[feed % len(self._opened.work.dealt_schemas)]

    def _advanced(self) -> None:
        """Number a change, to measure latency, and promise workers its watermark."""
        self._changed()
        self._cuts.changed()
        self._promise()
        self.budget.set("waiting", self._parent.held_bytes)

    def _promise(self) -> bool:
        if is_promised := super()._promise():
            self._gathering.note(self._cuts.raised(), self._changes)
        return is_promised

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
        self._unhurry()
        self._inbox.close()
        self._opened.close()
        self.budget.bells.ring()

    def _report(self) -> Report:
        return self._report_with(self._tally.rows_given)
