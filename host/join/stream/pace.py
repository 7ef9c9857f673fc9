"""Decides when waiting tuples and watermarks enter the windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError

from ...execute import promptness
from ...execute.batcher import Batcher
from ...execute.budget import LOOK_S, Budget
from ...windows.probe import Watermarks
from ..session import Session
from .flow import Flow
from .intake import Intake


class Pace:
    """Steps the session: at once, or by the clock if there is a latency target.

    All methods except ``ended`` are called in the stream's thread.

    Parameters
    ----------
    budget : Budget
        Counts the bytes of waiting rows and windows.
    wake : callable
        Makes the stream's thread call ``tick``.
    """

    def __init__(
        self,
        intake: Intake,
        session: Session,
        budget: Budget,
        flow: Flow,
        wake: Callable[[], None],
    ) -> None:
        self.intake = intake
        self.session = session
        self.budget = budget
        self.flow = flow
        self._wake = wake
        self._batcher = Batcher(flow.latency_s)
        self._last_watermarks: Watermarks = {}
        self._held = False
        self._relax = promptness.hold(flow.latency_s) if flow.latency_s else None

    def arrived(self, count: int) -> None:
        """Note that tuples have been taken in."""
        self._batcher.arrived(count)
        self.budget.set("waiting", self.intake.nbytes)
        if not self.flow.latency_s:
            self.cut(everything=True)

    def advanced(self) -> None:
        """Note that watermarks have risen: rows that they release need not wait for new rows."""
        self._release()
        if not self.flow.latency_s:
            self._step_watermarks()

    def _release(self) -> None:
        """Take in rows that were kept until watermarks had risen."""
        with self._ending_on_error():
            count = self.intake.release()
        if count:
            self.arrived(count)

    @contextmanager
    def _ending_on_error(self) -> Iterator[None]:
        """End the stream on an error: tuples may have left their queue, and be in no window."""
        try:
            yield
        except Exception as error:
            self.session.fail(error)
            raise

    def ended(self) -> None:
        """Note that an order has ended: a batch may have waited for others to be complete."""
        if self._held or (self.flow.latency_s and not self.session.outstanding):
            self._wake()

    def cut(self, *, everything: bool = False) -> None:
        """Let a batch of waiting tuples into the windows, or all, in several batches if needed."""
        while True:
            now, most = time.monotonic(), self.session.most_tuples
            idle = not self.session.outstanding
            count = self._batcher.cut(now, everything=everything, idle=idle, most=most)
            with self._ending_on_error():
                arrivals, timeless = self.intake.next_tuples(count)
                self.session.step(arrivals, self.intake.watermarks(), timeless)
            self.budget.set("waiting", self.intake.nbytes)
            self._count_windows()
            self._batcher.took(time.monotonic() - now)
            if not everything or self._batcher.due() is None:
                return

    def finish(self) -> None:
        """Let all waiting tuples into the windows as the last ones."""
        self.cut(everything=True)
        self.intake.end()
        if count := self.intake.release():
            self._batcher.arrived(count)
            self.cut(everything=True)
        self._step_watermarks()

    def stop(self) -> None:
        """Stop: no further batch is due."""
        if self._relax is not None:
            self._relax()

    def _step_watermarks(self) -> None:
        self._last_watermarks = self.intake.watermarks()
        with self._ending_on_error():
            self.session.step([], self._last_watermarks)
        self._count_windows()

    def _count_windows(self) -> None:
        self.budget.set("windows", self.session.nbytes)
        self.budget.set("device", self.session.device_nbytes)

    def _due(self) -> float | None:
        return self._batcher.due(idle=not self.session.outstanding)

    def tick(self, now: float) -> float | None:
        """Cut a batch if it is due, and check for silent feeds; return when to call again."""
        if not self.flow.latency_s and self.flow.idle_s is None:
            return None
        try:
            self._release()
            due = self._due()
            # Set before the test: an order that ends from now on wakes the thread.
            self._held = True
            self._held = self.budget.results_full or not self.session.has_room
            if self._held:  # until a batch is complete or rows are taken
                due = now + LOOK_S if self.budget.results_full else None
            elif due is not None and due <= now:
                self.cut()
                due = self._due()
            elif due is None and self.intake.watermarks() != self._last_watermarks:
                self._step_watermarks()
            idle = self.intake.next_idle(now)
        except PenstockError:
            return None  # the session raises it at the next call
        except Exception as error:
            self.session.fail(error)
            return None
        return min([*idle, *([] if due is None else [due])], default=None)
