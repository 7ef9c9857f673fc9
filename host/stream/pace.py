"""When waiting tuples and promises are let into the windows."""

from __future__ import annotations

import threading
import time

from penstock.errors import PenstockError
from penstock.host import promptness
from penstock.host.budget import Budget
from penstock.host.clock import Clock
from penstock.host.completeness.engine import Promises
from penstock.host.scheduling.batcher import Batcher
from penstock.host.session import Session
from penstock.host.stream.flow import Flow
from penstock.host.stream.intake import Intake

#: Batches in the lanes at a time: while they are busy, tuples gather to larger batches.
MOST_BATCHES = 4


class Pace:
    """Steps the session: at once, or by a clock if there is a latency target.

    Parameters
    ----------
    intake : Intake
    session : Session
    budget : Budget
        Is told what waiting rows and windows take.
    flow : Flow
    lock : threading.RLock
        Guards the intake; the caller holds it in all calls but ``settle`` and ``progressed``.
    """

    def __init__(
        self, intake: Intake, session: Session, budget: Budget, flow: Flow, lock: threading.RLock
    ) -> None:
        self.intake = intake
        self.session = session
        self.budget = budget
        self.flow = flow
        self._lock = lock
        self._batcher = Batcher(flow.latency_s)
        self._told: Promises = {}
        self._ended = False
        self._held = False
        self._relax = promptness.hold(flow.latency_s) if flow.latency_s else None
        self._clock = Clock(self._tick) if flow.latency_s or flow.idle_s else None

    def arrived(self, count: int) -> None:
        """Tuples have been admitted."""
        was_due = self._batcher.due() is not None
        self._batcher.arrived(count)
        if not self.flow.latency_s:
            self.cut(everything=True)
        elif not was_due:
            self.progressed()  # else the clock knows when the next batch is due
        self.budget.set("waiting", self.intake.nbytes)

    def advanced(self) -> None:
        """Promises have changed: what they release need not wait for rows."""
        if not self.flow.latency_s:
            self._step_promises()
        else:
            self.progressed()

    def settle(self) -> None:
        """Without a latency target, wait until everything has been joined."""
        if not self.flow.latency_s:
            self.session.drain()

    def progressed(self) -> None:
        """Something has changed that the clock may have waited for."""
        if self._clock is not None:
            self._clock.wake()

    def ended(self) -> None:
        """An order has ended: that matters where the clock waits for batches to be complete."""
        if self._held:
            self.progressed()

    def cut(self, *, everything: bool = False) -> None:
        """Let a batch of the waiting tuples into the windows."""
        count = self._batcher.cut(time.monotonic(), everything=everything)
        arrivals, timeless = self.intake.take(count)
        self.session.step(arrivals, self.intake.promises(), timeless)
        self.budget.set("waiting", self.intake.nbytes)
        self.budget.set("windows", self.session.nbytes)

    def stop(self) -> None:
        """End the clock. Called without the lock, which its thread may wait for."""
        self._ended = True
        if self._clock is not None:
            self._clock.close(self.flow.running.timeout_s)
        if self._relax is not None:
            self._relax()

    def finish(self) -> None:
        """All that waits goes into the windows, and no row comes after it."""
        self.cut(everything=True)
        self.intake.end()
        self._step_promises()

    def _step_promises(self) -> None:
        self._told = self.intake.promises()
        self.session.step([], self._told)
        self.budget.set("windows", self.session.nbytes)

    def _tick(self, now: float) -> float | None:
        """What the clock does: cut what is due, and let time pass for silent feeds."""
        try:
            with self._lock:
                if self._ended:
                    return None
                due = self._batcher.due()
                # True before it is looked at: what ends from then on wakes the clock.
                self._held = True
                self._held = self.session.outstanding >= MOST_BATCHES or self.budget.results_full
                if self._held:
                    due = None  # until a batch is complete or rows are taken
                elif due is not None and due <= now:
                    self.cut()
                    due = self._batcher.due()
                elif due is None and self.intake.promises() != self._told:
                    self._step_promises()
                idle = self.intake.next_idle(now)
        except PenstockError:
            return None  # the session keeps it for the next call
        return min([*idle, *([] if due is None else [due])], default=None)
