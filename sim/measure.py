"""Measures whole tasks on simulated pipelines, and checks their results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Kernel, Result, Task, WindowBuffer
from penstock.host.device.cut import Piece, run_to_end
from penstock.host.device.storage import key_dtype
from penstock.program import BandProgram, Mode

from .pipeline_device import PipelineDevice

#: Seconds after which a task counts as hung: ten million cycles of 512 units take some minutes.
TIMEOUT_S = 1800.0

#: Most bits of keys, which also have one bit less than they could.
_MOST_BITS = 24

#: Pairs that are checked at a time.
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Whole:
    """A task in which each stream tuple meets the whole window, from its start to its end.

    Parameters
    ----------
    tasks : int
        Device tasks that it took: more than one if it paused for lack of room.
    matches : int
        Pairs that match.
    seconds : float
        Processor time of the simulation, on one core.
    counters : mapping
        Sums over the device tasks; ``cycles`` are from the start to the header's write.
    """

    tasks: int
    matches: int
    seconds: float
    counters: Mapping[str, int]

    @property
    def per_cycle(self) -> float:
        """Window tuples per cycle: the window, times the passes, over the cycles."""
        return self.counters["window_flits"] / self.counters["cycles"]

    @property
    def evaluations_per_s(self) -> float:
        """Predicate evaluations per second of one core."""
        return self.counters["evaluations"] / self.seconds

    @property
    def port_use(self) -> float:
        """Share of the cycles in which the result port writes; near 1, it limits the rate."""
        return self.counters["result_words"] / self.counters["cycles"]


def band_keys(
    rng: np.random.Generator,
    program: BandProgram,
    stream_tuples: int,
    window_tuples: int,
    selectivity: float,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Stream bounds and window keys; about this share of the pairs meets all tests.

    For 0 the bounds are empty ranges, for 1 they hold all keys.
    """
    if not 0 <= selectivity <= 1:
        raise ValueError(f"selectivity must be 0 to 1, not {selectivity!r}")
    dtype = key_dtype(program.key_bits)
    span = 1 << min(program.key_bits - 1, _MOST_BITS)
    width = round(span * selectivity ** (1 / program.tests))
    stream, window = [], []
    for _ in range(program.tests):
        window.append(rng.integers(0, span, window_tuples, dtype))
        lo = rng.integers(0, span - width + 1, stream_tuples, dtype)
        stream += [lo + dtype.type(width == 0), lo + dtype.type(max(width - 1, 0))]
    return stream, window


def run_whole(
    device: PipelineDevice,
    program: BandProgram,
    stream: Sequence[np.ndarray],
    window: Sequence[np.ndarray],
    mode: Mode = Mode.PAIRS,
) -> Whole:
    """Run a task over the whole window and compare its result with brute force.

    A task that pauses is resumed as the device contract says.

    Parameters
    ----------
    device : PipelineDevice
        ``rtl`` or ``fjoin`` with its memory model; ``amaranth`` only for short tasks.
    program : BandProgram
    stream : sequence of ndarray, each of shape (n,)
        Bounds ``lo_0, hi_0, lo_1, ...``.
    window : sequence of ndarray, each of shape (m,)
        A column of keys per test.
    mode : Mode
        PAIRS or COUNT.

    Raises
    ------
    ValueError
        Another mode.
    DeviceError
        A task hangs, or the result is wrong.
    """
    if mode not in (Mode.PAIRS, Mode.COUNT):
        raise ValueError(f"mode must be pairs or count, not {mode.value}")
    expected = count_matches(program, stream, window)
    kernel = device.open(program, PAIRS | {mode})
    try:
        buffer = kernel.allocate(len(window[0]))
        buffer.write(0, window)
        began = time.process_time()
        results = list(_to_end(kernel, buffer, stream, mode))
        seconds = time.process_time() - began
    finally:
        kernel.close()
    found = np.zeros(len(stream[0]), np.int64)
    for rows, result in results:
        if result.folds is None:
            np.add.at(found, rows[result.i], 1)
        else:
            found[rows] += result.folds.value
    if mode is Mode.PAIRS:
        _check_pairs(program, stream, window, results)
    if not np.array_equal(found, expected):
        tuple_ = int(np.flatnonzero(found != expected)[0])
        raise DeviceError(
            f"the device found {found[tuple_]} matches of stream tuple {tuple_}, "
            f"not {expected[tuple_]}"
        )
    counters: Counter[str] = Counter()
    for _, result in results:
        counters.update(result.counters)
    counters["units"] = results[0][1].counters["units"]
    counted = {name: int(value) for name, value in counters.items()}
    return Whole(len(results), int(found.sum()), seconds, counted)


def count_matches(
    program: BandProgram, stream: Sequence[np.ndarray], window: Sequence[np.ndarray]
) -> np.ndarray:
    """Matches of each stream tuple by brute force, as int64 of shape (n,)."""
    count = np.zeros(len(stream[0]), np.int64)
    step = max(_CHUNK // max(len(count), 1), 1)
    for low in range(0, len(window[0]), step):
        part = [column[low : low + step, None] for column in window]
        count += np.count_nonzero(_meets(program, stream, part), axis=0)
    return count


def _meets(
    program: BandProgram, stream: Sequence[np.ndarray], window: Sequence[np.ndarray]
) -> np.ndarray:
    """Whether keys meet the program, element by element; both sides are broadcast."""
    index = np.zeros((), np.intp)
    for test, keys in enumerate(window):
        met = (stream[2 * test] <= keys) & (keys <= stream[2 * test + 1])
        index = index | met.astype(np.intp) << test
    entries = [bool(program.table >> entry & 1) for entry in range(1 << program.tests)]
    return np.array(entries)[index]


def _to_end(
    kernel: Kernel, buffer: WindowBuffer, stream: Sequence[np.ndarray], mode: Mode
) -> Iterator[tuple[np.ndarray, Result]]:
    """Results of a task and of the tasks that resume it, each with the numbers of its tuples."""
    count, size = len(stream[0]), buffer.capacity

    def run(piece: Piece) -> Result:
        task = Task(piece.entries(stream), piece.start, piece.end, count * size, mode)
        try:
            return kernel.submit(buffer, task).result(TIMEOUT_S)
        except FutureTimeoutError as cause:
            raise DeviceError(f"a task did not end within {TIMEOUT_S:g} s") from cause

    rows, start = np.arange(count, dtype=np.uint32), np.zeros(count, np.int64)
    every = Piece(rows, start, np.full(count, size))
    for piece, result in run_to_end(every, run):
        yield piece.rows, result


def _check_pairs(
    program: BandProgram,
    stream: Sequence[np.ndarray],
    window: Sequence[np.ndarray],
    results: Sequence[tuple[np.ndarray, Result]],
) -> None:
    """Whether each pair meets the program and no pair is there twice."""
    i = np.concatenate([rows[result.i] for rows, result in results])
    j = np.concatenate([result.j for _, result in results])
    for low in range(0, len(i), _CHUNK):
        own, other = i[low : low + _CHUNK], j[low : low + _CHUNK]
        met = _meets(program, [c[own] for c in stream], [c[other] for c in window])
        if not met.all():
            at = int(np.argmin(met))
            pair = int(own[at]), int(other[at])
            raise DeviceError(f"the device found pair {pair}, which does not match")
    pairs = np.sort(i * len(window[0]) + j)
    if (twice := np.flatnonzero(pairs[1:] == pairs[:-1])).size:
        pair = divmod(int(pairs[twice[0]]), len(window[0]))
        raise DeviceError(f"the device found pair {pair} twice")
