"""Tasks of many clients on one device, in turns."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from penstock.errors import DeviceError, OverloadError

from ....device.base import TIMEOUT_S, AnyTask, Device, Kernel, Result, WindowBuffer
from ....device.window_join import WindowTask
from .slices import KernelSpeed, Sliced, WholeTask

#: Seconds after a task for which its client is expected to run another.
_LATE_S = 5.0
#: Tasks on the device per lane: one runs, and one is there when it ends.
_PER_LANE = 2
#: Most evaluations of a task that runs in the calling thread.
HERE_EVALUATIONS = 1 << 18
Item = TypeVar("Item")


@dataclass(eq=False)
class ClientTask:
    """A task of a client, and the promise of its result."""

    client: str
    work: WholeTask | Sliced
    future: Future[Any] = field(default_factory=Future)
    #: Set when nobody wants the result any more; makes the error that says why.
    dropped: Callable[[], Exception] | None = None
    evaluations: int = 0


class Turns(Generic[Item]):
    """Tasks that wait for a device; a pure state machine.

    Parameters
    ----------
    depth : int
        Tasks of one client that may wait.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        # Clients with tasks that wait, the next one first.
        self._waiting: dict[str, deque[Item]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, client: str, item: Item) -> None:
        """Add a task of a client.

        Raises
        ------
        OverloadError
            Too many of its tasks wait.
        """
        queue = self._waiting.get(client, deque())
        if len(queue) >= self.depth:
            raise OverloadError(
                f"{len(queue)} tasks of this client wait for the device, which is the most; wait "
                "for results before submitting more"
            )
        queue.append(item)
        self._waiting[client] = queue

    def again(self, client: str, item: Item) -> None:
        """Put a task that has begun back, to go on in the client's next turn."""
        queue = self._waiting.get(client, deque())
        queue.appendleft(item)
        self._waiting[client] = queue

    def next(self, but: Collection[str] = ()) -> Item | None:
        """Take the next task; its client then comes last.

        Parameters
        ----------
        but : collection of str
            Clients who have to wait.
        """
        for client in self._waiting:
            if client in but:
                continue
            queue = self._waiting.pop(client)
            item = queue.popleft()
            if queue:
                self._waiting[client] = queue
            return item
        return None

    def waits(self, but: Collection[str] = ()) -> bool:
        """Whether a task could be next."""
        return any(client not in but for client in self._waiting)

    def drop(self, client: str) -> list[Item]:
        """Take all tasks of a client out."""
        return list(self._waiting.pop(client, ()))


class Runner:
    """Runs tasks on a device, one of each client in turn.

    Parameters
    ----------
    device : Device
    depth : int
        Tasks of one client that may wait.
    """

    def __init__(self, device: Device, depth: int) -> None:
        self.device = device
        self.counters: Counter[str] = Counter(tasks=0, failures=0, evaluations=0)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._turns: Turns[ClientTask] = Turns(depth)
        self._speeds: WeakKeyDictionary[Kernel, KernelSpeed] = WeakKeyDictionary()
        # When each client has submitted its latest task.
        self._latest: dict[str, float] = {}
        self._begun: set[ClientTask] = set()
        # What each client has on the device.
        self._steps: Counter[str] = Counter()
        self._running = 0
        self._starting = False

    def submit(self, client: str, begin: Callable[[], Future[Any]]) -> Future[Any]:
        """Run a task when it is the client's turn.

        Parameters
        ----------
        begin : callable
            Gives the task to the device; what its future gives has ``counters``.

        Raises
        ------
        OverloadError
            Too many tasks of the client wait.
        """
        return self._submit(ClientTask(client, WholeTask(begin)))

    def run(
        self, client: str, kernel: Kernel, window: WindowBuffer | None, task: AnyTask
    ) -> Future[Result]:
        """Run a task when it is the client's turn, in slices where the device has even ones.

        Raises
        ------
        OverloadError
            Too many tasks of the client wait.
        """
        if window is None or isinstance(task, WindowTask) or not self.device.is_even:
            return self.submit(client, lambda: kernel.submit(window, task))
        with self._lock:
            speed = self._speeds.setdefault(kernel, KernelSpeed())
        work = Sliced(kernel, window, task, speed)
        job = ClientTask(client, work)
        # A task of one short slice runs in this thread, sooner than another could begin.
        least = min(kernel.here_evaluations, HERE_EVALUATIONS, speed.evaluations(True))
        if work.evaluations <= least and self._take(job):
            self._run_here(job, work)
            return job.future
        return self._submit(job)

    def _take(self, job: ClientTask) -> bool:
        """Let a job begin at once if a lane is free and nobody waits; returns whether it may."""
        with self._lock:
            full = self._full(max(self.device.lanes - 1, 1))
            if self._running >= self.device.lanes or job.client in full or self._turns.waits(full):
                return False
            self._latest[job.client] = time.monotonic()
            self._began(job)
        return True

    def _run_here(self, job: ClientTask, work: Sliced) -> None:
        try:
            result = work.kernel.run(work.window, work.task)
            work.speed.learn(result)
            job.evaluations = int(result.counters.get("evaluations", 0))
        except Exception as error:  # a device may raise anything
            self._ended(job, None, error)
        else:
            self._ended(job, result, None)
        self._start()

    def _submit(self, job: ClientTask) -> Future[Any]:
        with self._lock:
            self._turns.add(job.client, job)
            self._latest[job.client] = time.monotonic()
        self._start()
        return job.future

    def result(self, future: Future[Any]) -> Any:
        """Wait for the result of a task.

        Raises
        ------
        DeviceError
            The task failed, or did not end in time.
        """
        try:
            return future.result(TIMEOUT_S)
        except FutureTimeoutError as cause:
            if future.done():
                raise
            raise DeviceError(
                f"a task did not end within {TIMEOUT_S:g} s on device {self.device.name} of the "
                "server; use smaller tasks"
            ) from cause

    def drop(self, client: str, error: Callable[[], Exception]) -> None:
        """End a client's tasks: waiting ones now, running ones after their slice."""
        with self._lock:
            dropped = self._turns.drop(client)
            self._latest.pop(client, None)
            for job in self._begun:
                if job.client == client:
                    job.dropped = error
            self._begun.difference_update(dropped)
        for job in dropped:
            job.future.set_exception(error())

    def load(self) -> tuple[int, int]:
        """Numbers of tasks that wait, and of tasks on the device."""
        with self._lock:
            return len(self._turns), self._running

    def quiet(self, timeout_s: float) -> bool:
        """Wait until no task waits or runs; returns whether that was reached."""
        with self._lock:
            return self._idle.wait_for(
                lambda: not self._running and not len(self._turns), timeout_s
            )

    def _start(self) -> None:
        with self._lock:
            if self._starting:
                return  # whoever is at it looks again before it ends
            self._starting = True
        while True:
            with self._lock:
                shared = self._is_shared()
                job = self._next(shared and self.device.is_even)
                if job is None:
                    self._starting = False
                    return
                self._began(job)
            try:
                real = job.work.begin(shared)
            except Exception as error:  # a device may raise anything, and others must go on
                self._ended(job, None, error)
            else:
                real.add_done_callback(lambda done, job=job: self._over(job, done))

    def _next(self, sliced: bool) -> ClientTask | None:
        """The next job, if the device has room for one.

        Where tasks run in slices, none waits inside the device, ahead of newcomers; and a lane is
        left for clients without a task on the device, so that theirs begin at once.
        """
        lanes = self.device.lanes
        if self._running >= (lanes if sliced else _PER_LANE * lanes):
            return None
        most = max(lanes - 1, 1) if sliced else self._running + 1
        return self._turns.next(self._full(most))

    def _full(self, most: int) -> list[str]:
        """Clients who have as many tasks on the device as each may have."""
        return [client for client, steps in self._steps.items() if steps >= most]

    def _is_shared(self) -> bool:
        """Whether several clients have run tasks recently."""
        since = time.monotonic() - _LATE_S
        return len(self._latest) > 1 and sum(at > since for at in self._latest.values()) > 1

    def _over(self, job: ClientTask, done: Future[Any]) -> None:
        error, result = done.exception(), None
        if error is None:
            try:
                step = done.result()
                job.evaluations += int(step.counters.get("evaluations", 0))
                if job.work.take(step):
                    result = job.work.result()
                elif job.dropped is not None:
                    error = job.dropped()
            except Exception as cause:  # what a device gives may be wrong in any way
                error = cause
        if error is None and result is None:
            with self._lock:
                self._stepped(job)
                self._turns.again(job.client, job)
        else:
            self._ended(job, result, error)
        self._start()

    def _began(self, job: ClientTask) -> None:
        self._running += 1
        self._steps[job.client] += 1
        self._begun.add(job)

    def _stepped(self, job: ClientTask) -> None:
        self._running -= 1
        self._steps[job.client] -= 1
        if not self._steps[job.client]:
            del self._steps[job.client]

    def _ended(self, job: ClientTask, result: Any, error: BaseException | None) -> None:
        with self._lock:
            self._stepped(job)
            self._begun.discard(job)
            self.counters["tasks"] += 1
            if result is None:
                self.counters["failures"] += 1
            self.counters["evaluations"] += job.evaluations
            self._idle.notify_all()
        if result is None:
            job.future.set_exception(error or DeviceError("a task ended without a result"))
        else:
            job.future.set_result(result)
