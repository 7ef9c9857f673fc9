"""The window-join operation on a device that has range joins only."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import Device, Kernel
from penstock.host.device.cut import TASK_EVALUATIONS
from penstock.host.device.run import run_task
from penstock.host.device.window_join import Arrivals, WindowKernel, WindowResult, WindowTask
from penstock.program import WindowProgram


class RangeWindowKernel(WindowKernel):
    """Both directions of a window join as range joins.

    What a tuple meets is a range of the other side's tuples, and both ends of the range only grow
    with the tuples that arrive: so each direction is an ordinary range join.

    Parameters
    ----------
    device : Device
        Does the range joins.
    program : WindowProgram
    """

    def __init__(self, device: Device, program: WindowProgram) -> None:
        super().__init__(program)
        self._device = device
        self._kernels = (device.open(program.a), device.open(program.b))
        # A thread of its own: the device's may not wait for each other.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-window")

    def min_room(self, rows: tuple[int, int]) -> int:
        return max(*rows, 1)

    def submit(self, task: WindowTask) -> Future[WindowResult]:
        return self._thread.submit(self._run, task)

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        for kernel in self._kernels:
            kernel.close()

    def _run(self, task: WindowTask) -> WindowResult:
        check_task(task)
        if task.room < self.min_room(task.rows):
            raise DeviceError(
                f"a task needs room for {self.min_room(task.rows)} pairs, not {task.room}"
            )
        tuples, counters = task.tuples, Counter(evaluations=0)
        start, end = tuples.met(task.rows)
        end[: task.history] = start[: task.history]
        own, other = [], []
        for is_b, kernel in enumerate(self._kernels):
            i, j = self._probe(kernel, tuples, bool(is_b), start, end, task.room, counters)
            own.append(i)
            other.append(j)
        # Arrival of the later tuple of each pair: pairs of complete tuples are what is kept.
        later = np.concatenate([np.flatnonzero(tuples.is_b == bool(b))[own[b]] for b in (0, 1)])
        done = len(tuples)
        if len(later) > task.room:
            done = int(np.partition(later, task.room)[task.room])
            counters["evaluations"] = int((end - start)[:done].sum())
        keep = later < done
        a = np.concatenate([own[0], other[1]])[keep]
        b = np.concatenate([other[0], own[1]])[keep]
        return WindowResult(a, b, done, counters)

    def _probe(
        self,
        kernel: Kernel,
        tuples: Arrivals,
        is_b: bool,
        start: np.ndarray,
        end: np.ndarray,
        room: int,
        counters: Counter[str],
    ) -> tuple[np.ndarray, np.ndarray]:
        """All pairs whose later tuple is of one side: its row, and the row of the other tuple."""
        chosen = tuples.is_b == is_b
        window = tuples.window[not is_b]
        buffer = kernel.allocate(int(np.count_nonzero(~chosen)))
        none = np.zeros(0, np.uint32)
        found = [(none, none)]
        try:
            if buffer.capacity:
                buffer.write(0, window)
            for result in run_task(
                kernel,
                buffer,
                tuples.stream[is_b],
                start[chosen],
                end[chosen],
                room=max(room, kernel.min_room),
                lanes=self._device.lanes,
                task_evaluations=self._device.task_evaluations or TASK_EVALUATIONS,
            ):
                counters.update(result.counters)
                found.append((result.i, result.j))
        finally:
            buffer.free()
        i, j = (np.concatenate(part) for part in zip(*found, strict=True))
        return i, j


def check_task(task: WindowTask) -> None:
    """Refuse a task that cannot be.

    Raises
    ------
    DeviceError
    """
    tuples = task.tuples
    if not 0 <= task.history <= len(tuples):
        raise DeviceError(f"{len(tuples)} tuples cannot have a history of {task.history}")
    if min(task.rows) < 0:
        raise DeviceError(f"windows cannot have {task.rows[0]} and {task.rows[1]} rows")
    count = len(tuples) - int(tuples.is_b.sum()), int(tuples.is_b.sum())
    for side, rows in enumerate(count):
        columns = (*tuples.window[side], *tuples.stream[side])
        if any(len(column) != rows for column in columns):
            raise DeviceError(f"columns of side {'AB'[side]} must have {rows} rows, one per tuple")
