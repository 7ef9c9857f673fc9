"""A device of this machine, calibrated by a measurement of about a second.

Three costs: evaluations in the lanes, a fixed time per task, and the host's work per tuple and per
batch, which is that of Python code and so of one core at a time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError, UsageError
from penstock.host.device.base import Device, Kernel, Task, WindowBuffer
from penstock.host.device.cut import LEAST_EVALUATIONS, TASK_EVALUATIONS, TASKS_PER_LANE
from penstock.host.perfmodel.load import Load, Probe
from penstock.host.stream import JoinStream
from penstock.program import BandProgram
from penstock.query import compile_query

#: Two tests, both to be met: the join of the FJoin paper's figures is of this form.
PROGRAM = BandProgram(tests=2, table=0b1000, key_bits=32)
#: The same for a stream, with a window so short that hardly anything is evaluated.
QUERY = (
    "SELECT a.n AS i, b.n AS j FROM a JOIN b ON abs(a.x - b.x) < 500 AND abs(a.y - b.y) < 500 "
    "AND b.t BETWEEN a.t AND a.t"
)
SCHEMA = pa.schema([(name, pa.int32()) for name in ("n", "t", "x", "y")])
#: Keys lie in this range; of them one pair in about a hundred thousand matches.
KEYS = 1 << 18

#: Seconds of measuring each of the three.
_MEASURE_S = 0.35
#: Seconds after which a task counts as hung.
_TIMEOUT_S = 60.0
_STREAM_TUPLES, _WINDOW_TUPLES = 1 << 10, 1 << 15
#: Tuples of a batch and side, small and large, from which the host's costs follow.
_BATCHES = (64, 8192)


@dataclass(frozen=True, kw_only=True)
class Cores:
    """A device and its host, as they were measured.

    Parameters
    ----------
    lanes : int
    lane_evaluations_per_s : float
        Of each lane while all are busy.
    task_s : float
        Fixed time of a task in its lane.
    tuple_s, batch_s : float
        Host time of a tuple, and of a batch of both streams.
    """

    lanes: int
    lane_evaluations_per_s: float
    task_s: float
    tuple_s: float
    batch_s: float

    def utilisation(self, load: Load) -> float:
        """Share of the lanes' time, or of the host's where that is larger."""
        host_s = load.rate_per_s * self.tuple_s + self._batches_per_s(load) * self.batch_s
        device_s = load.evaluations_per_s / self.lane_evaluations_per_s
        device_s += sum(map(self._tasks, load.probes)) * self.task_s / load.interval_s
        # The host's work is done by the same cores.
        return max(host_s, (device_s + host_s) / self.lanes)

    def with_lanes(self, lanes: int) -> Cores:
        """As many cores of the same speed."""
        return replace(self, lanes=lanes)

    def _batches_per_s(self, load: Load) -> float:
        return min(1 / load.interval_s, load.rate_per_s)

    def _tasks(self, probe: Probe) -> float:
        """Tasks that a batch's tuples of one stream are cut into (host.device.cut)."""
        if probe.window_tuples == 0:
            return 0.0
        aim = max(probe.evaluations / (TASKS_PER_LANE * self.lanes), LEAST_EVALUATIONS)
        tasks = math.ceil(probe.evaluations / min(aim, TASK_EVALUATIONS))
        return min(max(tasks, 1), max(tasks, probe.stream_tuples))


def calibrate(device: Device, *, seconds: float = 3 * _MEASURE_S) -> Cores:
    """Measure a device and its host.

    Parameters
    ----------
    device : Device
        One that runs in real time: what a simulator takes says nothing of hardware.
    seconds : float
        About how long to measure.

    Raises
    ------
    UsageError
        ``seconds`` is not above 0.
    DeviceError
        A task fails or does not end.
    """
    if not seconds > 0:
        raise UsageError(f"seconds must be above 0, not {seconds!r}")
    each = seconds / 3
    kernel = device.open(PROGRAM)
    try:
        per_s, task_s = _lanes(kernel, device.lanes, each)
    finally:
        kernel.close()
    small, large = (_batch_s(device, tuples, each / 2) for tuples in _BATCHES)
    tuple_s = max(large - small, 0.0) / (2 * (_BATCHES[1] - _BATCHES[0]))
    return Cores(
        lanes=device.lanes,
        lane_evaluations_per_s=per_s,
        task_s=task_s,
        tuple_s=tuple_s,
        batch_s=max(small - 2 * _BATCHES[0] * tuple_s, 0.0),
    )


def _lanes(kernel: Kernel, lanes: int, seconds: float) -> tuple[float, float]:
    """Evaluations per second of a lane, and seconds of a task that evaluates hardly anything."""
    rng = np.random.default_rng(1)
    window = kernel.allocate(_WINDOW_TUPLES)
    try:
        window.write(0, [rng.integers(0, KEYS, _WINDOW_TUPLES, np.uint32) for _ in range(2)])
        big, small = (_task(rng, rows, size) for rows, size in ((_STREAM_TUPLES, None), (1, 1)))
        empty_s = _round_s(kernel, window, small, lanes, seconds)
        round_s = _round_s(kernel, window, big, lanes, seconds)
    finally:
        window.free()
    evaluations = _STREAM_TUPLES * _WINDOW_TUPLES
    return evaluations / max(round_s - empty_s, round_s / 2), empty_s


def _task(rng: np.random.Generator, rows: int, size: int | None) -> Task:
    bounds = []
    for _ in range(2):
        low = rng.integers(0, KEYS, rows, np.uint32)
        bounds += [low, low + np.uint32(1000)]
    start = np.zeros(rows, np.int64)
    return Task(bounds, start, start + (size or _WINDOW_TUPLES), room=1 << 20)


def _round_s(kernel: Kernel, window: WindowBuffer, task: Task, lanes: int, seconds: float) -> float:
    """Seconds that a task takes of its lane while all lanes have one after the other."""
    each = 4

    def run() -> None:
        futures = [kernel.submit(window, task) for _ in range(each * lanes)]
        if wait(futures, _TIMEOUT_S).not_done:
            raise DeviceError(f"a task did not end within {_TIMEOUT_S:g} s while calibrating")
        for future in futures:
            future.result()

    return _median_s(run, seconds) / each


def _batch_s(device: Device, tuples: int, seconds: float) -> float:
    """Seconds of a batch with this many tuples of each stream, through a stream."""
    rng = np.random.default_rng(2)
    schemas = {"a": SCHEMA, "b": SCHEMA}
    query = compile_query(QUERY, schemas, time={"a": "t", "b": "t"})
    clock = iter(range(1 << 31))
    with_stream = JoinStream(query, schemas, device)

    def run() -> None:
        now = next(clock)
        for source in "ab":
            # Times of the two never meet: there are windows, but nothing in the ranges.
            time_of = np.full(tuples, 2 * now + (source == "b"), np.int32)
            keys = rng.integers(0, KEYS, (2, tuples), np.int32)
            columns = [np.arange(tuples, dtype=np.int32), time_of, *keys]
            batch = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=SCHEMA)
            with_stream.push(source, batch)

    try:
        return _median_s(run, seconds)
    finally:
        with_stream.close()


def _median_s(run: Callable[[], None], seconds: float) -> float:
    """Median time of a call, after one that warms up."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return float(np.median(times))
