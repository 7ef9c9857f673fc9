"""What the performance model predicts beside what devices do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.host.closed_loop import sustained_per_s
from bench.host.traffic import Traffic
from penstock.errors import DeviceError
from penstock.host.device.base import Task
from penstock.host.device.registry import open_device
from penstock.host.model.cpu import KEYS, PROGRAM, calibrate
from penstock.host.model.load import BatchHalf, Model
from penstock.host.model.pipeline_cycles import task_cycles

#: Latency target of the runs on this machine, and seconds of their windows to either side.
TARGET_S, WINDOW_S = 0.2, 2.0
#: Rows per second that are joined beside.
RESULTS_PER_S = 100_000.0

#: Units, stream tuples, window tuples and slide of the tasks whose cycles are counted.
TASKS = [
    (32, 3, 2000, 0),
    (32, 32, 2000, 0),
    (32, 128, 2000, 0),
    (32, 512, 8000, 10),
    (32, 128, 100, 50),
    (128, 128, 2000, 0),
    (128, 512, 8000, 1),
    (128, 1000, 300, 10),
]
QUICK_TASKS = 5


@dataclass(frozen=True)
class Rates:
    """One prediction of the rate that is sustained, and what was measured beside it."""

    predicted_per_s: float
    measured_per_s: float

    @property
    def off(self) -> float:
        """By which share the prediction is too large."""
        return self.predicted_per_s / self.measured_per_s - 1


def sustained_rates(runs: int, measured_s: float) -> list[Rates]:
    """Predictions and runs in turn: the speed of a shared machine changes."""
    found: list[Rates] = []
    with open_device("cpu") as device:
        for _ in range(runs):
            predicted = predicted_traffic(calibrate(device))
            near = found[-1].measured_per_s if found else predicted.rate_per_s
            measured = sustained_per_s(device, predicted.at(near), TARGET_S, measured_s)
            found.append(Rates(predicted.rate_per_s, measured))
    return found


def predicted_traffic(model: Model) -> Traffic:
    """Traffic at the rate that a model says is sustained."""
    traffic = Traffic(rate_per_s=1.0, window_s=WINDOW_S, results_per_s=RESULTS_PER_S)
    return traffic.sustained(model, TARGET_S)


@dataclass(frozen=True)
class Cycles:
    """A task's cycles."""

    task: tuple[int, int, int, int]
    predicted: float
    counted: int

    @property
    def off(self) -> float:
        """By which share the prediction is too large."""
        return self.predicted / self.counted - 1


def counted_cycles(*, quick: bool) -> list[Cycles]:
    """Tasks on the Verilated kernel, with memory that answers at once."""
    found = []
    for units, tuples, window, slide in TASKS[: QUICK_TASKS if quick else None]:
        predicted = task_cycles(BatchHalf(tuples, window, slide), units)
        found.append(
            Cycles(
                (units, tuples, window, slide), predicted, _counted(units, tuples, window, slide)
            )
        )
    return found


def _counted(units: int, tuples: int, window: int, slide: int) -> int:
    rng = np.random.default_rng(1)
    start = np.arange(tuples, dtype=np.int64) * slide
    size = int(start[-1]) + window
    with open_device("rtl", units=units) as device:
        kernel = device.open(PROGRAM)
        try:
            buffer = kernel.allocate(size)
            buffer.write(0, [rng.integers(0, KEYS, size, np.uint32) for _ in range(2)])
            bounds = [np.full(tuples, bound, np.uint32) for bound in (1, 0, 1, 0)]
            future = kernel.submit(buffer, Task(bounds, start, start + window, room=1000))
            result = future.result(600)
        finally:
            kernel.close()
    if result.pause is not None:
        raise DeviceError("a task without matches paused; its cycles are not those of the task")
    return result.counters["cycles"]
