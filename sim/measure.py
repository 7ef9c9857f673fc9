"""What a simulated pipeline does per cycle, measured on a task of the paper's kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import Task
from penstock.hw.join.fjoin.predicates import manhattan
from penstock.sim.pipeline_device import PipelineDevice

#: Distance below which two points of the workload join, as in the paper's data set.
LIMIT = 500

#: Rows of the window that are compared at a time when results are checked.
_CHUNK = 4096


@dataclass(frozen=True)
class Throughput:
    """A whole task, from its start to its end.

    Parameters
    ----------
    units, stream_tuples, window_tuples : int
        Size of the pipeline and of the task; each stream tuple meets the whole window.
    pairs : int
        Matches.
    cycles : int
        From the start to the header's write.
    window_flits : int
        Window tuples that went through the pipeline: the window, times the passes.
    passes, admission_stalls, memory_waits : int
        As the kernel counts them.
    """

    units: int
    stream_tuples: int
    window_tuples: int
    pairs: int
    cycles: int
    window_flits: int
    passes: int
    admission_stalls: int
    memory_waits: int

    @property
    def per_cycle(self) -> float:
        """Window tuples per cycle."""
        return self.window_flits / self.cycles

    @property
    def selectivity(self) -> float:
        """Share of the pairs that match."""
        return self.pairs / (self.stream_tuples * self.window_tuples)


def points(
    rng: np.random.Generator, stream_tuples: int, window_tuples: int, selectivity: float
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Stream and window keys of which about this share is closer than :data:`LIMIT`.

    Points lie in a square whose side fits the selectivity; for 0 the window lies far away. Near the
    edges of the square points have fewer neighbours, so the share is somewhat smaller than asked.
    """
    if not 0 <= selectivity <= 0.5:
        raise ValueError(f"selectivity must be 0 to 0.5, not {selectivity!r}")
    # A point's neighbours fill a diamond of 2 * LIMIT**2.
    side = max(int(LIMIT * (2 / selectivity) ** 0.5), 1) if selectivity else 10 * LIMIT
    away = 0 if selectivity else 20 * LIMIT
    stream = [rng.integers(0, side, stream_tuples) for _ in range(2)]
    return stream, [rng.integers(0, side, window_tuples) + away for _ in range(2)]


def throughput(
    device: PipelineDevice,
    *,
    window_tuples: int,
    stream_tuples: int = 512,
    selectivity: float = 0.0,
    key_bits: int = 32,
    seed: int = 0,
) -> Throughput:
    """Run one task by Manhattan distance on a simulated device and count its cycles.

    Parameters
    ----------
    device : PipelineDevice
        ``rtl`` or ``fjoin``, with the memory that is meant; ``amaranth`` for short tasks.
    window_tuples, stream_tuples : int
        Size of the task.
    selectivity : float
        About the share of pairs that match.
    key_bits : int
        Width of a coordinate.
    seed : int
        Seed of the points.

    Raises
    ------
    DeviceError
        The task needs more room than the device gives one, or its result is wrong.
    """
    rng = np.random.default_rng(seed)
    stream, window = points(rng, stream_tuples, window_tuples, selectivity)
    kernel = device.open(manhattan(key_bits, limit=LIMIT))
    try:
        buffer = kernel.allocate(window_tuples)
        buffer.write(0, window)
        whole = np.zeros(stream_tuples, np.int64), np.full(stream_tuples, window_tuples)
        task = Task(stream, *whole, room=stream_tuples * window_tuples)
        result = kernel.submit(buffer, task).result()
    finally:
        kernel.close()
    if result.pause is not None:
        raise DeviceError("the task paused for lack of room; measure with fewer window tuples")
    if (pairs := _matches(stream, window)) != len(result.i):
        raise DeviceError(f"the device found {len(result.i)} pairs, not {pairs}")
    counters = result.counters
    return Throughput(
        units=counters["units"],
        stream_tuples=stream_tuples,
        window_tuples=window_tuples,
        pairs=pairs,
        cycles=counters["cycles"],
        window_flits=counters["window_flits"],
        passes=counters["passes"],
        admission_stalls=counters["admission_stalls"],
        memory_waits=counters.get("memory_waits", 0),
    )


def _matches(stream: list[np.ndarray], window: list[np.ndarray]) -> int:
    """Matches by brute force."""
    count = 0
    for low in range(0, len(window[0]), _CHUNK):
        near = [
            abs(s[:, None] - w[low : low + _CHUNK]) for s, w in zip(stream, window, strict=True)
        ]
        count += int(np.count_nonzero(near[0] + near[1] < LIMIT))
    return count
