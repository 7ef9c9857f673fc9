"""The hosting thread of one lane: brings windows to the device, starts tasks, takes results.

Two orders are in flight, so that the transfers of one hide behind the evaluation of the other. The
thread sleeps until there is an order, a result or a deadline.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import Result, Task
from penstock.host.device.cut import Piece
from penstock.host.lanes.memory import DeviceMemory, Lease
from penstock.host.lanes.ring import Span
from penstock.host.lanes.trace import Trace
from penstock.host.scheduling.order import Order
from penstock.program import Mode

#: Pairs of one device result: 32 MiB of indices, many times what a task needs to be efficient.
ROOM = 1 << 22


@dataclass(frozen=True, eq=False)
class Chunk:
    """What an order gave.

    Parameters
    ----------
    order : Order
    pairs : tuple of (ndarray, ndarray)
        Of each device task: tuples of the probe, and logical positions of the run.
    rows : tuple of ndarray
        Of each device task: which tuples of the probe its aggregates are of.
    results : tuple of Result
    rest : tuple of Order
        What is still to be done, because the device ran out of room for results.
    """

    order: Order
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...]
    rows: tuple[np.ndarray, ...]
    results: tuple[Result, ...]
    rest: tuple[Order, ...]


@dataclass(eq=False)
class _Part:
    """One device task of an order: the part of its ranges that lies in one span."""

    span: Span
    piece: Piece
    mode: Mode
    future: Future[Result]


@dataclass(eq=False)
class _Flight:
    order: Order
    lease: Lease
    parts: list[_Part]
    deadline: float
    began: float
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
        self._inbox: deque[Order] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"penstock-{name}", daemon=True)
        self._thread.start()

    def start(self, order: Order) -> None:
        """Run an order; returns at once."""
        with self._wake:
            self._inbox.append(order)
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
                order = self._inbox.popleft() if self._inbox else None
                if order is None and self._closing and not flights:
                    return
            if order is not None and (flight := self._started(order)) is not None:
                flights.append(flight)
            for flight in list(flights):
                if flight.over():
                    flights.remove(flight)
                    self._finish(flight)
                elif time.monotonic() >= flight.deadline:
                    flights.remove(flight)
                    self._lose(flight)

    def _started(self, order: Order) -> _Flight | None:
        """Sync the window and submit; None if that failed, which has been reported then."""
        bound = order.bound
        began = time.monotonic()
        try:
            lease = self.memory.lease(
                bound.probe.window,
                bound.layout,
                order.low,
                order.high,
                self.timeout_s,
                bound.modes,
            )
        except Exception as error:  # whatever a device does must not end the thread
            self._on_failed(order, error, False)
            return None
        self._trace.add(self.name, "sync", began, time.monotonic())
        flight = _Flight(order, lease, [], time.monotonic() + self.timeout_s, time.monotonic())
        try:
            for span in lease.spans:
                piece = order.piece.clipped(span.low, span.high)
                if not len(piece.rows):
                    continue
                by = span.low - span.offset
                task = Task(
                    [a[piece.rows] for a in bound.arrays],
                    piece.start - by,
                    piece.end - by,
                    max(self.room, lease.window.kernel.min_room),
                    bound.mode,
                )
                future = lease.window.kernel.submit(lease.window.buffer, task)
                flight.parts.append(_Part(span, piece, bound.mode, future))
        except Exception as error:
            self._drain(flight)
            self._on_failed(order, error, False)
            return None
        for part in flight.parts:
            part.future.add_done_callback(lambda _, f=flight: self._ended(f))
        return flight

    def _ended(self, flight: _Flight) -> None:
        with self._wake:
            flight.ended.append(time.monotonic())
            self._wake.notify()

    def _finish(self, flight: _Flight) -> None:
        ended = max(flight.ended, default=time.monotonic())
        self._trace.add(self.name, "task", flight.began, ended, flight.order.evaluations)
        self.busy_s += ended - flight.began
        began = time.monotonic()
        try:
            chunk = _chunk(flight)
        except Exception as error:
            self.memory.release(flight.lease)
            self._on_failed(flight.order, error, False)
            return
        self.memory.release(flight.lease)
        self._on_done(chunk)
        self._trace.add(self.name, "results", began, time.monotonic())

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


def _chunk(flight: _Flight) -> Chunk:
    """The results of a flight that is over.

    Raises
    ------
    DeviceError
        A task failed, or its result cannot be right.
    """
    order = flight.order
    pairs, rows_of, results, rest = [], [], [], []
    for part in flight.parts:
        result = part.future.result(0)
        by = part.span.low - part.span.offset
        _check(part, result, by)
        rows = order.bound.kept[part.piece.rebased(result.i)]
        pairs.append((rows, result.j.astype(np.int64) + by))
        rows_of.append(order.bound.kept[part.piece.rows])
        results.append(_shifted(result, by))
        if result.pause is not None:
            at = result.pause
            pause = type(at)(at.i0, at.i1, at.p + by)
            left = part.piece.rest(pause)
            rest += [Order(order.batch, order.bound, piece) for piece in reversed(left)]
    return Chunk(order, tuple(pairs), tuple(rows_of), tuple(results), tuple(rest))


def _shifted(result: Result, by: int) -> Result:
    """The same result with positions of folds counted from the run's first row."""
    folds = result.folds
    if folds is None or folds.position is None or not by:
        return result
    position = np.where(folds.found, folds.position + by, folds.position)
    return replace(result, folds=replace(folds, position=position))


def _check(part: _Part, result: Result, by: int) -> None:
    """Refuse a result that no task like this can have.

    Raises
    ------
    DeviceError
    """
    rows = len(part.piece.rows)
    problem = ""
    folds = part.mode is not Mode.PAIRS
    if folds and (result.folds is None or len(result.folds.found) != rows):
        problem = "aggregates of another number of tuples"
    elif len(result.i) != len(result.j):
        problem = f"{len(result.i)} stream indices and {len(result.j)} window positions"
    elif len(result.i) and int(result.i.max()) >= rows:
        problem = f"stream index {int(result.i.max())} of {rows} tuples"
    elif len(result.i):
        j = result.j.astype(np.int64) + by
        outside = (j < part.piece.start[result.i]) | (j >= part.piece.end[result.i])
        if outside.any():
            first = int(np.argmax(outside))
            problem = f"window position {int(j[first])} outside the range of its tuple"
    elif folds and result.folds is not None and result.folds.position is not None:
        found, position = result.folds.found, result.folds.position + by
        outside = found & ((position < part.piece.start) | (position >= part.piece.end))
        if outside.any():
            first = int(position[np.argmax(outside)])
            problem = f"nearest match at {first}, outside the range of its tuple"
    if problem:
        raise DeviceError(
            f"a device gave an impossible result ({problem}); the task is run again elsewhere"
        )
