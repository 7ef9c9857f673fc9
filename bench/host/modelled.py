"""Lanes of simulated units in real time: results come when the kernel would have them.

A lane is one pipeline of ``units`` join units at ``clock_hz``. It takes one task after the other,
each for the cycles that :func:`penstock.host.model.pipeline_cycles.task_cycles` counts, which is
compared with the Verilated kernel (``python -m bench.host``: within 5 %). What the model leaves
out: transfers between host and card. Results are exact (:mod:`bench.host.search`); a result that
this machine computes too late is delivered late, and counted.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bench.host.search import IndexedWindow, matches
from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Device, Kernel, Result, Task, WindowBuffer
from penstock.host.model.load import BatchHalf
from penstock.host.model.pipeline_cycles import task_cycles
from penstock.program import BandProgram, Mode, Program

CLOCK_HZ = 300e6
#: Seconds after its time from which on a result counts as late.
LATE_S = 0.001
#: Tasks whose times are kept.
_KEPT_TIMES = 1 << 20


@dataclass(frozen=True)
class TaskTimes:
    """When a task was handed over, ran by the model, and was delivered, in monotonic seconds."""

    submitted: float
    began: float
    due: float
    delivered: float


class ModelledDevice(Device):
    """Pipelines of simulated units.

    Parameters
    ----------
    units : int
        Of each lane.
    lanes : int
    clock_hz : float
    """

    name = "modelled"
    key_widths = (32,)
    #: Tasks are cut by the number of lanes, not by this.
    task_evaluations = 1 << 40

    def __init__(self, units: int, *, lanes: int = 2, clock_hz: float = CLOCK_HZ) -> None:
        self.units = units
        self.lanes = lanes
        self.clock_hz = clock_hz
        self.times: deque[TaskTimes] = deque(maxlen=_KEPT_TIMES)
        self._free_at = [0.0] * lanes
        self._lock = threading.Lock()
        self._sums: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="bench-modelled")
        self._timer = _Timer()

    def refuses(self, program: Program, modes: frozenset[Mode] = PAIRS) -> str | None:
        if not isinstance(program, BandProgram) or modes != PAIRS:
            return "it is modelled for pairs of band programs only"
        if program.table & 1:
            return "its predicate is always true"
        return None

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        if reason := self.refuses(program, modes):
            raise DeviceError(f"the {self.name} device cannot run this program: {reason}")
        return _Kernel(self, program)

    def seconds(self, task: Task) -> float:
        """What a task takes of its lane."""
        rows = task.rows
        window = float((task.end - task.start).mean())
        slide = float(task.start[-1] - task.start[0]) / max(rows - 1, 1)
        return task_cycles(BatchHalf(rows, window, slide), self.units) / self.clock_hz

    def start(self, compute: Callable[[Task], Result], task: Task) -> Future[Result]:
        """Run a task on the lane that is free first."""
        now = time.monotonic()
        with self._lock:
            lane = min(range(self.lanes), key=self._free_at.__getitem__)
            began = max(now, self._free_at[lane])
            due = began + self.seconds(task)
            self._free_at[lane] = due
        given: Future[Result] = Future()
        given.set_running_or_notify_cancel()

        def deliver(done: Future[Result]) -> None:
            delivered = time.monotonic()
            self.times.append(TaskTimes(now, began, due, delivered))
            if (error := done.exception()) is not None:
                given.set_exception(error)
                return
            result = done.result()
            with self._lock:
                self._sums.update(result.counters)
                self._sums.update(tasks=1, late=int(delivered > due + LATE_S))
            given.set_result(replace(result, ran=(began, due)))

        computed = self._threads.submit(compute, task)
        computed.add_done_callback(lambda done: self._timer.at(due, partial(deliver, done)))
        return given

    def counters(self) -> dict[str, int]:
        with self._lock:
            return dict(self._sums)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        self._timer.close()


class _Kernel(Kernel):
    min_room = 1 << 22  # it never pauses

    def __init__(self, device: ModelledDevice, program: Program) -> None:
        super().__init__(program)
        assert isinstance(program, BandProgram)
        self._device = device
        self._band = program
        # Compiled now, and not in the first task.
        one = np.zeros(1, np.uint32)
        window = IndexedWindow(1, program.tests)
        window.write(0, [one] * program.tests)
        matches(window, program, [one] * (2 * program.tests), one, one + 1)

    def allocate(self, capacity: int) -> WindowBuffer:
        return IndexedWindow(capacity, self._band.tests)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        return self._device.start(partial(self._compute, window), task)

    def _compute(self, window: WindowBuffer, task: Task) -> Result:
        assert isinstance(window, IndexedWindow)
        i, j = matches(window, self._band, task.stream, task.start, task.end)
        if len(i) > task.room:
            raise DeviceError(f"a modelled task has {len(i)} pairs and room for {task.room}")
        evaluations = int((task.end - task.start).sum())
        cycles = round(self._device.seconds(task) * self._device.clock_hz)
        return Result(i, j, None, {"evaluations": evaluations, "cycles": cycles})


class _Timer:
    """Calls what is due, from one thread."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="bench-timer", daemon=True)
        self._thread.start()

    def at(self, moment: float, call: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (moment, next(self._numbers), call))
            self._changed.notify()

    def close(self) -> None:
        """End the thread once nothing is due any more."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(60)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > time.monotonic():
                    if self._closing and not self._due:
                        return
                    left = self._due[0][0] - time.monotonic() if self._due else 1.0
                    if left > 0:
                        self._changed.wait(left)
                call = heapq.heappop(self._due)[2]
            call()
