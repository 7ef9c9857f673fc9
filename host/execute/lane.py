"""The host's end of one lane: brings windows to the device, starts tasks, takes results.

Two orders are in flight, so that the transfers of one hide behind the evaluation of the other. A
lane of a stream has a thread, which sleeps until there is an order, a result or a deadline; the
lanes of a join that is pulled are driven by the caller that pulls.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial

from penstock.errors import DeviceError
from penstock.program import Mode

from ..device.base import AnyTask, Kernel, Result, WindowBuffer
from ..device.search import AnySearch
from .budget import LOOK_S
from .chunk import Chunk, chunk_of
from .memory import DeviceMemory, Lease
from .order import Order, TaskPart
from .room import NO_ROOM, Room, TaskRoom
from .trace import Trace

#: Most pairs of a task that runs in the stream's own thread, which has other work.
HERE_PAIRS = 1 << 14


@dataclass(eq=False)
class Flight:
    """The tasks of an order in flight, and the memory held for them."""

    order: Order
    number: int
    lease: Lease | None
    task_room: TaskRoom
    parts: list[TaskPart]
    deadline: float
    submitted: float
    ended: list[float] = field(default_factory=list)

    def over(self) -> bool:
        return all(part.future.done() for part in self.parts)


class LaneRunner:
    """Runs orders on one lane of a device.

    Parameters
    ----------
    memory : DeviceMemory
        Memory of the lane's device; lanes of one device share it.
    on_done : callable
        Called with a Chunk, from the lane's thread.
    on_failed : callable
        Called with the order, the error, and whether the task hangs.
    timeout_s : float
        Seconds after which a task that has not ended counts as hung.
    room : Room
        For results; an order waits for it.
    driver : callable, optional
        Called from any thread when there is work, if the caller drives the lane by :meth:`turn`; by
        default the lane has a thread of its own.
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
        room: Room,
        driver: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.memory = memory
        self.timeout_s = timeout_s
        self.room = room
        self._busy_s = self._busy_here_s = 0.0
        self._on_done = on_done
        self._on_failed = on_failed
        self._trace = trace
        self._inbox: deque[tuple[Order, float]] = deque()
        self._numbers = itertools.count()
        self._device_until = -math.inf
        self._wake = threading.Condition()
        self._closing = False
        self._flights: list[Flight] = []
        #: An order that waits for room, and when it was started.
        self._next: tuple[Order, float] | None = None
        self._driver = driver
        self._thread: threading.Thread | None = None

    @property
    def busy_s(self) -> float:
        """Seconds spent in tasks."""
        return self._busy_s + self._busy_here_s

    def start(self, order: Order) -> None:
        """Start an order; return at once."""
        with self._wake:
            if self._thread is None and self._driver is None:
                name = f"penstock-{self.name}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            self._inbox.append((order, time.monotonic()))
            self._wake.notify()

    def close(self) -> None:
        """Cancel waiting tasks, and end the thread when the running ones are over.

        Raises
        ------
        DeviceError
            Running tasks did not end in time.
        """
        with self._wake:
            self._closing = True
            self._inbox.clear()
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(2 * self.timeout_s)
        elif self._flights:
            wait(self._cancel(), 2 * self.timeout_s)
            self.turn()
        if self._flights:
            raise DeviceError(
                f"lane {self.name} did not end within {2 * self.timeout_s:g} s: its device does "
                "not answer; end the process"
            )

    def turn(self) -> None:
        """Begin each order that has room, and finish each that has ended, for a driving caller."""
        while self._begin_next():
            pass
        for flight in list(self._flights):
            if flight.over():
                self._flights.remove(flight)
                self._finish(flight)
            elif time.monotonic() >= flight.deadline:
                self._flights.remove(flight)
                self._lose(flight)

    def _begin_next(self) -> bool:
        """Begin the next order if there is room for it; return whether one was begun."""
        if self._next is None and not self._inbox:
            return False
        with self._wake:
            if self._next is None and self._inbox:
                self._next = self._inbox.popleft()
            if self._closing:
                self._next = None
        waiting = self._next
        if waiting is None or (task_room := self._take_room(waiting[0])) is None:
            return False
        self._next = None
        if (flight := self._submit(*waiting, task_room)) is not None:
            self._flights.append(flight)
        return True

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._has_work, self._until())
                if self._closing:
                    self._next = None
                    if not self._flights:
                        return
                    self._cancel()
            self.turn()

    def _cancel(self) -> list[Future[Result]]:
        """Cancel tasks that have not begun; return the others."""
        futures = [part.future for flight in self._flights for part in flight.parts]
        return [future for future in futures if not future.cancel()]

    def _has_work(self) -> bool:
        has_order = bool(self._inbox) and self._next is None
        is_over = any(flight.over() for flight in self._flights)
        return has_order or is_over or (self._closing and not self._flights)

    def _until(self) -> float | None:
        """Return the seconds after which to look again unless woken; None for no limit."""
        if self._next is not None:
            return LOOK_S
        deadline = min((flight.deadline for flight in self._flights), default=None)
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def _take_room(self, order: Order, *, waits: bool = True) -> TaskRoom | None:
        """Take room for the results of an order; None if there is none."""
        if order.bound.mode is not Mode.PAIRS:
            return NO_ROOM
        return self.room.take(self.name, order.batch, waits=waits)

    def _submit(self, order: Order, started: float, task_room: TaskRoom) -> Flight | None:
        """Sync the window and submit; None after a failure, which has been reported."""
        began = time.monotonic()
        try:
            kernel = self.memory.kernel(order.bound.program, order.bound.modes)
            if order.bound.may_search:
                kernel.prepare_search()  # rather than seconds later, when more rows wait
            lease = order.bound.lease(self.memory, order.piece, self.timeout_s)
        except Exception as error:  # whatever a device does must not end the thread
            self.room.give_back(task_room)
            self._on_failed(order, error, False)
            return None
        # A device may begin a task before ``submit`` returns.
        synced = time.monotonic()
        flight = Flight(order, next(self._numbers), lease, task_room, [], math.inf, synced)
        try:
            for part in order.bound.start(
                order.piece, lease, task_room.pairs, kernel, kernel.submit
            ):
                flight.parts.append(part)
        except Exception as error:
            self.room.give_back(task_room)
            self._drain(flight)
            self._on_failed(order, error, False)
            return None
        self._trace.add(
            self.name, "sync", began, synced, order=flight.number, waited_s=began - started
        )
        flight.deadline = time.monotonic() + self.timeout_s
        for part in flight.parts:
            part.future.add_done_callback(lambda _, f=flight: self._ended(f))
        return flight

    def run_here(self, order: Order, *, loads: bool, times: int = 1) -> Chunk | None:
        """Run a small order in the calling thread; None if it is too large or has no room.

        ``loads`` says that the thread waits for the result. Else the first order of a program goes
        to a lane, since loading may take long. An order that fails here also runs on a lane, so no
        error is lost.

        Parameters
        ----------
        times : int
            By how much an order may be larger than a small one.
        """
        program, modes = order.bound.program, order.bound.modes
        try:
            kernel = (self.memory.kernel if loads else self.memory.opened)(program, modes)
        except Exception:  # a lane tries again, perhaps that of another device
            return None
        if kernel is None or order.evaluations > times * kernel.here_evaluations:
            return None
        if (task_room := self._take_room(order, waits=False)) is None:
            return None
        began, number = time.monotonic(), next(self._numbers)
        try:
            lease = order.bound.lease(self.memory, order.piece, self.timeout_s)
            try:
                pairs = task_room.pairs if loads else min(task_room.pairs, times * HERE_PAIRS)
                synced = time.monotonic()
                run = partial(_run_now, kernel)
                parts = list(order.bound.start(order.piece, lease, pairs, kernel, run))
                ended = time.monotonic()
                chunk = chunk_of(order, parts)
            finally:
                self.memory.release(lease)
        except Exception:  # whatever a device does: a lane tries again, and reports it
            return None
        finally:
            self.room.give_back(task_room)
        self._busy_here_s += ended - synced
        self._trace.add(self.name, "sync", began, synced, order=number, waited_s=0.0)
        self._trace.add(
            f"{self.name} device", "task", synced, ended,
            order=number, evaluations=order.evaluations,
        )  # fmt: skip
        self._trace.add(self.name, "pairs", ended, time.monotonic(), order=number)
        return chunk

    def _ended(self, flight: Flight) -> None:
        with self._wake:
            flight.ended.append(time.monotonic())
            self._wake.notify()
        if self._driver is not None:
            self._driver()

    def _finish(self, flight: Flight) -> None:
        order, number = flight.order, flight.number
        device_began, ended = self._on_device(flight)
        self._busy_s += ended - device_began
        self._trace.add(
            f"{self.name} device", "task", device_began, ended,
            order=number, evaluations=order.evaluations,
        )  # fmt: skip
        began = time.monotonic()
        try:
            chunk = chunk_of(order, flight.parts)
        except Exception as error:
            self.memory.release(flight.lease)
            self.room.give_back(flight.task_room)
            self._on_failed(order, error, False)
            return
        self._trace.add(self.name, "pairs", began, time.monotonic(), order=number)
        self.memory.release(flight.lease)
        self._on_done(chunk)
        self.room.give_back(flight.task_room)
        self._trace.add(self.name, "results", began, time.monotonic(), order=number)

    def _on_device(self, flight: Flight) -> tuple[float, float]:
        """Return when a finished flight began and ended: as its device says, or estimated."""
        futures = [part.future for part in flight.parts if not part.future.cancelled()]
        reported = [future.result().ran for future in futures if future.exception() is None]
        known = [ran for ran in reported if ran is not None]
        if known and len(known) == len(flight.parts):
            return min(began for began, _ in known), max(ended for _, ended in known)
        ended = max(flight.ended, default=time.monotonic())
        # A task submitted while another one ran began when that one ended.
        began = min(max(flight.submitted, self._device_until), ended)
        self._device_until = max(self._device_until, ended)
        return began, ended

    def _lose(self, flight: Flight) -> None:
        """Give up a hanging task; if it ends after all, report it like any other."""
        self.memory.quarantine(flight.lease)
        error = DeviceError(
            f"lane {self.name}: a task of {len(flight.order.piece.rows)} stream tuples and "
            f"{flight.order.evaluations} evaluations did not end within {self.timeout_s:g} s; the "
            "device hangs, or the task is too large for it: use smaller tasks or a longer timeout"
        )
        self._on_failed(flight.order, error, True)
        _when_over([part.future for part in flight.parts], lambda: self._finish(flight))

    def _drain(self, flight: Flight) -> None:
        """Let no other task use the window until all started tasks are over."""
        running = [part.future for part in flight.parts if not part.future.cancel()]
        if not running:
            self.memory.release(flight.lease)
            return
        self.memory.quarantine(flight.lease)
        _when_over(running, lambda: self.memory.release(flight.lease))


def _run_now(
    kernel: Kernel, window: WindowBuffer | None, task: AnyTask | AnySearch
) -> Future[Result]:
    """Run a task in this thread; return its result as a future that is done."""
    future: Future[Result] = Future()
    future.set_result(kernel.run(window, task))
    return future


def _when_over(futures: Sequence[Future[Result]], then: Callable[[], None]) -> None:
    """Call ``then`` once, when all futures are done."""
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
