"""A device that traces its tasks: for the window operator, which does not use the host's lanes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

from penstock.program import AnyProgram, Mode

from ..device.base import PAIRS, Device, Kernel, Result
from ..device.wrapped import WrappedDevice, WrappedKernel
from ..metrics.report import LaneReport
from .trace import Trace


class Occupancy:
    """Infers which task is on which lane from submissions and ends; time is an argument.

    A device takes its tasks in order of submission, each on the lane that is free first.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._free = list(range(lanes))
        self._running: dict[Any, tuple[int, float]] = {}
        self._waiting: list[Any] = []

    def queued(self) -> list[int]:
        """Return the tasks per lane; waiting ones are shared out in turn."""
        counts = [len(self._waiting[lane :: self._lanes]) for lane in range(self._lanes)]
        for lane, _ in self._running.values():
            counts[lane] += 1
        return counts

    def submitted(self, task: Any, now: float) -> None:
        """Note that a task was submitted."""
        if self._free:
            self._running[task] = self._free.pop(0), now
        else:
            self._waiting.append(task)

    def ended(self, task: Any, now: float) -> tuple[int, float]:
        """Note that a task has ended; return its lane, and when it began."""
        if task not in self._running:
            # Two ends were reported in the wrong order: this task takes the other one's lane.
            other = next(iter(self._running))
            self._waiting[self._waiting.index(task)] = other
            self._running[task] = self._running.pop(other)
        lane, began = self._running.pop(task)
        if self._waiting:
            self._running[self._waiting.pop(0)] = lane, now
        else:
            self._free.append(lane)
        return lane, began


class TracedDevice(WrappedDevice):
    """A device around another one that traces its tasks.

    Parameters
    ----------
    trace : Trace
        Gets a track per lane.
    """

    def __init__(self, inner: Device, trace: Trace) -> None:
        super().__init__(inner)
        self.trace = trace
        self._names = [f"{inner.name}-{lane}" for lane in range(inner.lanes)]
        self._occupancy = Occupancy(inner.lanes)
        self._busy_s = [0.0] * inner.lanes
        self._failures = [0] * inner.lanes
        self._lock = threading.Lock()

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return _Kernel(self, self.inner.open(program, modes))

    def watch(self, future: Future[Any]) -> None:
        """Follow a task that has just been submitted."""
        with self._lock:
            self._occupancy.submitted(future, time.monotonic())
        future.add_done_callback(self._ended)

    def lane_reports(self) -> tuple[LaneReport, ...]:
        """Return the state of each lane."""
        with self._lock:
            queued = self._occupancy.queued()
            return tuple(
                LaneReport(name, queued[k], self._busy_s[k], self._failures[k], False)
                for k, name in enumerate(self._names)
            )

    def _ended(self, future: Future[Any]) -> None:
        now = time.monotonic()
        failed = future.cancelled() or future.exception() is not None
        work = 0 if failed else future.result().counters["evaluations"]
        with self._lock:
            lane, began = self._occupancy.ended(future, now)
            if not future.cancelled():
                self._busy_s[lane] += now - began
                self._failures[lane] += failed
        if not future.cancelled():
            self.trace.add(f"{self._names[lane]} device", "task", began, now, evaluations=work)


class _Kernel(WrappedKernel):
    def __init__(self, device: TracedDevice, inner: Kernel) -> None:
        super().__init__(inner)
        self._device = device

    def submit(self, window: Any, task: Any) -> Future[Result]:
        future = super().submit(window, task)
        self._device.watch(future)
        return future
