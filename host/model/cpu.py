"""A device of this machine, calibrated by a measurement of a few seconds.

Evaluations take time in the lanes. The host's work takes processor time of the same cores: per
batch, tuple, task and joined row. It is measured as the processor time of a stream's process,
without its waits and without other programs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from itertools import count

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError, UsageError
from penstock.program import BandProgram
from penstock.query import compile_query

from ..device.base import Device, Kernel, Task
from ..device.cut import Cutting
from ..execute.running import Running
from ..join.session import LEAST_EVALUATIONS, TASKS_PER_LANE
from ..join.stream import Flow, JoinStream
from .load import BatchHalf, Load

#: A conjunction of two tests: the form of the join in the FJoin paper's figures.
PROGRAM = BandProgram(tests=2, table=0b1000, key_bits=32)
#: This join for a stream; a tuple meets some 64 of the other side, which takes almost no time.
QUERY = (
    "SELECT a.n AS i, b.n AS j FROM a JOIN b ON abs(a.x - b.x) < 500 AND abs(a.y - b.y) < 500 "
    "AND b.t BETWEEN a.t - 32 AND a.t + 32"
)
SCHEMA = pa.schema([(name, pa.int32()) for name in ("n", "t", "x", "y")])
#: Range of the keys; about one pair in a hundred thousand matches.
KEYS = 1 << 18

#: Seconds of measurement, since shared machines change their speed, and the lanes' share of them.
#: The rest is for the host's four costs.
_MEASURE_S, _LANES_SHARE = 2.5, 0.5
#: Seconds after which a task counts as hung.
_TIMEOUT_S = 60.0
_STREAM_TUPLES, _WINDOW_TUPLES = 1 << 10, 1 << 17
#: Tuples of a small and of a large batch per side; the host's costs follow from both.
_BATCHES = (64, 8192)
#: Share of the tuples with a common key, to measure joined rows.
_MATCHING = 0.3
#: Evaluations of a task of about 128 tuples, to measure many tasks.
_SMALL_TASK = 1 << 13


@dataclass(frozen=True, kw_only=True)
class Cores:
    """Measured costs of a device and its host.

    Parameters
    ----------
    lanes : int
    lane_evaluations_per_s : float
        Of each lane while all are busy.
    batch_s, tuple_s, task_s, row_s : float
        Processor time of a batch of both streams, of a tuple, of a task and of a joined row.
    """

    lanes: int
    lane_evaluations_per_s: float
    batch_s: float
    tuple_s: float
    task_s: float
    row_s: float

    def utilisation(self, load: Load) -> float:
        """Share of the cores' time, or of the host's where that is larger."""
        host_s = (
            min(1 / load.interval_s, load.rate_per_s) * self.batch_s
            + load.rate_per_s * self.tuple_s
            + sum(map(self._tasks, load.probes)) / load.interval_s * self.task_s
            + load.rows_per_s * self.row_s
        )
        device_s = load.evaluations_per_s / self.lane_evaluations_per_s
        # The same cores do the host's work, mostly one at a time.
        return max(host_s, (device_s + host_s) / self.lanes)

    def _tasks(self, probe: BatchHalf) -> float:
        """Tasks that a batch's tuples of one stream are cut into (see ``execute.order``)."""
        if probe.window_tuples == 0:
            return 0.0
        cutting = Cutting(self.lanes, tasks_per_lane=TASKS_PER_LANE, least=LEAST_EVALUATIONS)
        tasks = math.ceil(probe.evaluations / cutting.target(int(probe.evaluations)))
        return min(max(tasks, 1), max(tasks, probe.stream_tuples))


def calibrate(device: Device, *, seconds: float = _MEASURE_S) -> Cores:
    """Measure a device and its host.

    Parameters
    ----------
    device : Device
        A device that runs in real time: a simulator's time says nothing about hardware.
    seconds : float
        Approximate length of the measurement.

    Raises
    ------
    UsageError
        ``seconds`` is not above 0.
    DeviceError
        A task fails or does not end.
    """
    if not seconds > 0:
        raise UsageError(f"seconds must be above 0, not {seconds!r}")
    kernel = device.open(PROGRAM)
    try:
        per_s = _lane_evaluations_per_s(kernel, device.lanes, seconds * _LANES_SHARE)
    finally:
        kernel.close()
    each = seconds * (1 - _LANES_SHARE) / 4
    few, many = _BATCHES
    small = _cost(device, few, each)
    large = _cost(device, many, each)
    split = _cost(device, many, each, task_evaluations=_SMALL_TASK)
    matching = _cost(device, many, each, matching=_MATCHING)
    task_s = max(split.cpu_s - large.cpu_s, 0.0) / max(split.tasks - large.tasks, 1.0)
    tasks_s = large.tasks * task_s
    tuple_s = max(large.cpu_s - small.cpu_s, 0.0) / (2 * (many - few))
    return Cores(
        lanes=device.lanes,
        lane_evaluations_per_s=per_s,
        batch_s=max(large.cpu_s - tasks_s - 2 * many * tuple_s, 0.0),
        tuple_s=tuple_s,
        task_s=task_s,
        row_s=max(matching.cpu_s - large.cpu_s, 0.0) / max(matching.rows, 1.0),
    )


def _lane_evaluations_per_s(kernel: Kernel, lanes: int, seconds: float) -> float:
    """Evaluations per second of a lane."""
    rng = np.random.default_rng(1)
    window = kernel.allocate(_WINDOW_TUPLES)
    try:
        window.write(0, [rng.integers(0, KEYS, _WINDOW_TUPLES, np.uint32) for _ in range(2)])
        task = _task(rng)
        each = 4

        def run() -> None:
            futures = [kernel.submit(window, task) for _ in range(each * lanes)]
            if wait(futures, _TIMEOUT_S).not_done:
                raise DeviceError(f"a task did not end within {_TIMEOUT_S:g} s while calibrating")
            for future in futures:
                future.result()

        return each * _STREAM_TUPLES * _WINDOW_TUPLES / _mean_s(run, seconds)
    finally:
        window.free()


def _task(rng: np.random.Generator) -> Task:
    bounds = []
    for _ in range(2):
        low = rng.integers(0, KEYS, _STREAM_TUPLES, np.uint32)
        bounds += [low, low + np.uint32(1000)]
    start = np.zeros(_STREAM_TUPLES, np.int64)
    return Task(bounds, start, start + _WINDOW_TUPLES, room=1 << 20)


def _mean_s(run: Callable[[], None], seconds: float) -> float:
    """Mean time of a call, after one that warms up."""
    run()
    began, calls = time.perf_counter(), 0
    while not calls or time.perf_counter() < began + seconds:
        run()
        calls += 1
    return (time.perf_counter() - began) / calls


@dataclass(frozen=True)
class _Cost:
    """Averages of a batch of both streams."""

    cpu_s: float
    tasks: float
    rows: float


def _cost(
    device: Device,
    tuples: int,
    seconds: float,
    *,
    matching: float = 0.0,
    task_evaluations: int | None = None,
) -> _Cost:
    """Measure the cost of a stream's batch with this many tuples of each side.

    ``matching`` of the tuples of each side match each other.
    """
    rng = np.random.default_rng(2)
    schemas = {"a": SCHEMA, "b": SCHEMA}
    query = compile_query(QUERY, schemas, time={"a": "t", "b": "t"})
    # With a target, joining starts on demand only: both sides' tuples are one batch.
    running = Running(pruning=False, task_evaluations=task_evaluations)
    flow = Flow(latency_s=_TIMEOUT_S, running=running)
    keys = {s: rng.integers(0, KEYS, (2, tuples), np.int32) for s in "ab"}
    for drawn in keys.values():
        drawn[:, rng.random(tuples) < matching] = 0
    numbers = np.arange(tuples, dtype=np.int32)
    clock = count()

    with JoinStream(query, schemas, device, flow=flow) as stream:

        def run() -> float:
            # Batches are made before the clock starts.
            n = numbers + next(clock) * tuples
            batches = {
                s: pa.RecordBatch.from_arrays([pa.array(c) for c in (n, n, *drawn)], schema=SCHEMA)
                for s, drawn in keys.items()
            }
            began = time.process_time()
            for source, batch in batches.items():
                stream.push(source, batch)
            stream.flush()
            stream.poll()
            return time.process_time() - began

        for _ in range(2):  # the second meets a window as long as all later ones do
            run()
        tasks, rows = device.counters()["tasks"], stream.stats.rows
        times: list[float] = []
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            times.append(run())
        done = len(times)
        return _Cost(
            float(np.median(times)),
            (device.counters()["tasks"] - tasks) / done,
            (stream.stats.rows - rows) / done,
        )
