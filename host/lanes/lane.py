"""The hosting thread of one lane: brings windows to the device, starts tasks, takes results.

Two orders are in flight, so that the transfers of one hide behind the evaluation of the other. The
thread sleeps until there is an order, a result or a deadline.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.errors import DeviceError
from penstock.host.device.base import Result, Task
from penstock.host.lanes.chunk import Chunk, Part, chunk_of
from penstock.host.lanes.memory import DeviceMemory, Lease
from penstock.host.lanes.trace import Trace
from penstock.host.scheduling.order import Order

#: Pairs of one device result: 32 MiB of indices, many times what a task needs to be efficient.
ROOM = 1 << 22


@dataclass(eq=False)
class _Flight:
    order: Order
    number: int
    lease: Lease
    parts: list[Part]
    deadline: float
    submitted: float
    ended: list[float] = field(default_factory=list)

    def over(self) -> bool:
        return all(part.future.done() for part in self.parts)


class Lane:
    """Runs orders on one lane of a device.

    Parameters
    ----------
    name : str
    memory : DeviceMemory
        Of the lane's device; lanes of one device share it.
    on_done : callable
        Called with a Chunk, from the lane's thread.
    on_failed : callable
        Called with the order, the error and whether the task hangs.
    trace : Trace
    timeout_s : float
        Seconds after which a task that has not ended counts as hung.
    room : int
        Pairs of one device result, at most.
    """

    def __init__(
        self,
        name: str,
        memory: DeviceMemory,
        on_done: Callable[[Chunk], None],
        on_failed: Callable[[Order, Exception, bool], None],
        *,
        trace: Trace,
        timeout_s: float,
        room: int = ROOM,
    ) -> None:
        self.name = name
        self.memory = memory
        self.timeout_s = timeout_s
        self.room = room
        self.busy_s = 0.0
        self._on_done = on_done
        self._on_failed = on_failed
        self._trace = trace
        self._inbox: deque[tuple[Order, float]] = deque()
        self._numbers = itertools.count()
        self._device_until = -math.inf
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"penstock-{name}", daemon=True)
        self._thread.start()

    def start(self, order: Order) -> None:
        """Run an order; returns at once."""
        with self._wake:
            self._inbox.append((order, time.monotonic()))
            self._wake.notify()

    def close(self) -> None:
        """End the thread when what it has started is over.

        Raises
        ------
        DeviceError
            It was not over in time.
        """
        with self._wake:
            self._closing = True
            self._inbox.clear()
            self._wake.notify()
        self._thread.join(2 * self.timeout_s)
        if self._thread.is_alive():
            raise DeviceError(
                f"lane {self.name} did not end within {2 * self.timeout_s:g} s: its device does "
                "not answer; end the process"
            )

    def _run(self) -> None:
        flights: list[_Flight] = []
        while True:
            with self._wake:
                self._wake.wait_for(
                    lambda: self._inbox or self._closing or any(f.over() for f in flights),
                    _until(min((f.deadline for f in flights), default=None)),
                )
                asked = self._inbox.popleft() if self._inbox else None
                if asked is None and self._closing and not flights:
                    return
            if asked is not None and (flight := self._started(*asked)) is not None:
                flights.append(flight)
            for flight in list(flights):
                if flight.over():
                    flights.remove(flight)
                    self._finish(flight)
                elif time.monotonic() >= flight.deadline:
                    flights.remove(flight)
                    self._lose(flight)

    def _started(self, order: Order, asked: float) -> _Flight | None:
        """Sync the window and submit; None if that failed, which has been reported then."""
        bound = order.bound
        began = time.monotonic()
        try:
            lease = self.memory.lease(
                bound.ranges.source,
                bound.layout,
                order.low,
                order.high,
                self.timeout_s,
                bound.modes,
            )
        except Exception as error:  # whatever a device does must not end the thread
            self._on_failed(order, error, False)
            return None
        flight = _Flight(order, next(self._numbers), lease, [], math.inf, math.inf)
        try:
            for span in lease.spans:
                piece = order.piece.clipped(span.low, span.high)
                if not len(piece.rows):
                    continue
                by = span.low - span.offset
                task = Task(
                    piece.of(bound.arrays),
                    piece.start - by,
                    piece.end - by,
                    max(self.room, lease.window.kernel.min_room),
                    bound.mode,
                )
                flight.submitted = min(flight.submitted, time.monotonic())
                future = lease.window.kernel.submit(lease.window.buffer, task)
                flight.parts.append(Part(span, piece, bound.mode, future))
        except Exception as error:
            self._drain(flight)
            self._on_failed(order, error, False)
            return None
        now = time.monotonic()
        synced = min(flight.submitted, now)
        self._trace.add(
            self.name, "sync", began, synced, order=flight.number, waited_s=began - asked
        )
        flight.deadline = now + self.timeout_s
        for part in flight.parts:
            part.future.add_done_callback(lambda _, f=flight: self._ended(f))
        return flight

    def _ended(self, flight: _Flight) -> None:
        with self._wake:
            flight.ended.append(time.monotonic())
            self._wake.notify()

    def _finish(self, flight: _Flight) -> None:
        order, number = flight.order, flight.number
        device_began, ended = self._on_device(flight)
        self.busy_s += ended - device_began
        self._trace.add(
            f"{self.name} device", "task", device_began, ended,
            order=number, evaluations=order.evaluations,
        )  # fmt: skip
        began = time.monotonic()
        try:
            chunk = chunk_of(order, flight.parts)
        except Exception as error:
            self.memory.release(flight.lease)
            self._on_failed(order, error, False)
            return
        self._trace.add(self.name, "pairs", began, time.monotonic(), order=number)
        self.memory.release(flight.lease)
        self._on_done(chunk)
        self._trace.add(self.name, "results", began, time.monotonic(), order=number)

    def _on_device(self, flight: _Flight) -> tuple[float, float]:
        """When a flight that is over began and ended, as its device says or else as it seems."""
        given = [p.future.result().ran for p in flight.parts if p.future.exception() is None]
        known = [ran for ran in given if ran is not None]
        if known and len(known) == len(flight.parts):
            return min(began for began, _ in known), max(ended for _, ended in known)
        ended = max(flight.ended, default=time.monotonic())
        # What was submitted while another task was on the device began when that one ended.
        began = min(max(flight.submitted, self._device_until), ended)
        self._device_until = max(self._device_until, ended)
        return began, ended

    def _lose(self, flight: _Flight) -> None:
        """Give a hanging task up; if it ends after all, that is reported like any other end."""
        self.memory.quarantine(flight.lease)
        error = DeviceError(
            f"lane {self.name}: a task of {len(flight.order.piece.rows)} stream tuples and "
            f"{flight.order.evaluations} evaluations did not end within {self.timeout_s:g} s; the "
            "device hangs, or the task is too large for it: use smaller tasks or a longer timeout"
        )
        self._on_failed(flight.order, error, True)
        _when_over([part.future for part in flight.parts], lambda: self._finish(flight))

    def _drain(self, flight: _Flight) -> None:
        """Keep the window from others until the tasks that did start are over."""
        running = [part.future for part in flight.parts if not part.future.cancel()]
        if not running:
            self.memory.release(flight.lease)
            return
        self.memory.quarantine(flight.lease)
        _when_over(running, lambda: self.memory.release(flight.lease))


def _until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _when_over(futures: Sequence[Future[Result]], then: Callable[[], None]) -> None:
    """Call ``then`` once, when all of some futures are done."""
    left = set(futures)
    guard = threading.Lock()

    def ended(future: Future[Result]) -> None:
        with guard:
            left.discard(future)
            if left:
                return
        then()

    for future in futures:
        future.add_done_callback(ended)
