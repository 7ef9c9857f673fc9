"""What the performance model predicts beside what devices do."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError
from penstock.host.device.base import Device, Task
from penstock.host.device.registry import open_device
from penstock.host.perfmodel import solve
from penstock.host.perfmodel.cpu import KEYS, PROGRAM, SCHEMA, calibrate
from penstock.host.perfmodel.load import Load, Probe
from penstock.host.perfmodel.pipeline import task_cycles
from penstock.host.session import Running
from penstock.host.stream import Flow, JoinStream
from penstock.query import compile_query

#: Window and target of the runs on this machine.
LOAD = Load(rate_per_s=1.0, ratio=1.0, before_s=2.0, after_s=2.0, latency_s=0.2)
#: Column t is in units of 10 microseconds.
TICKS_PER_S = 100_000
QUERY = (
    "SELECT a.n AS i, b.n AS j FROM a JOIN b ON abs(a.x - b.x) < 500 AND abs(a.y - b.y) < 500 "
    f"AND b.t BETWEEN a.t - {int(LOAD.before_s * TICKS_PER_S)} "
    f"AND a.t + {int(LOAD.after_s * TICKS_PER_S)}"
)

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
    """The rate that was predicted first, and the one at which arriving and joining keep step."""

    predicted_per_s: float
    measured_per_s: float
    #: Of each run: rate of the streams by their times, and tuples per second that were joined.
    runs: list[tuple[float, float]]


def sustained_rates(runs: int, measured_s: float) -> Rates:
    """Streams fed as fast as they are taken.

    A run at rate T by the tuples' times joins R tuples per second. Evaluations go with R·T, so the
    rate at which both are equal is near their geometric mean, where the next run is.
    """
    with open_device("cpu") as device:
        predicted = solve.sustainable_rate_per_s(calibrate(device), LOAD)
        rate, found = predicted, []
        for _ in range(runs):
            joined = _joined_per_s(device, rate, measured_s)
            found.append((rate, joined))
            rate = math.sqrt(rate * joined)
    return Rates(predicted, rate, found)


def _joined_per_s(device: Device, rate_per_s: float, measured_s: float) -> float:
    """Tuples per second that are joined, after two windows have passed."""
    schemas = {"a": SCHEMA, "b": SCHEMA}
    query = compile_query(QUERY, schemas, time={"a": "t", "b": "t"})
    # Each pair in the window is evaluated, as the model has it.
    flow = Flow(latency_s=LOAD.latency_s, running=Running(pruning=False))
    stream = JoinStream(query, schemas, device, flow=flow)
    warm = round(2 * (LOAD.before_s + LOAD.after_s) / 2 / LOAD.interval_s)
    count = round(measured_s / LOAD.interval_s)
    parts = _parts(rate_per_s)
    try:
        for _ in range(warm):
            _push(stream, next(parts))
        stream.flush()
        began = time.perf_counter()
        tuples = sum(_push(stream, next(parts)) for _ in range(count))
        stream.flush()
        return tuples / (time.perf_counter() - began)
    finally:
        stream.close()


def _parts(rate_per_s: float) -> Iterator[dict[str, pa.RecordBatch]]:
    """Both streams in parts of a batch's interval, without end."""
    rng = np.random.default_rng(1)
    tuples = round(rate_per_s / 2 * LOAD.interval_s)
    ticks = round(LOAD.interval_s * TICKS_PER_S)
    number = 0
    while True:
        part = {}
        for source in "ab":
            moment = number * ticks + np.sort(rng.integers(0, ticks, tuples, np.int32))
            keys = rng.integers(0, KEYS, (2, tuples), np.int32)
            columns = [np.arange(tuples, dtype=np.int32), moment.astype(np.int32), *keys]
            part[source] = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=SCHEMA)
        yield part
        number += 1


def _push(stream: JoinStream, part: dict[str, pa.RecordBatch]) -> int:
    """Push a part of both streams; returns its tuples."""
    for source, batch in part.items():
        stream.push(source, batch)
    stream.poll()
    return sum(batch.num_rows for batch in part.values())


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
        predicted = task_cycles(Probe(tuples, window, slide), units)
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
