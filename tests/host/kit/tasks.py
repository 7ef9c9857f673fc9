"""Range joins for tests: how they are made, what their result is, how they are run to the end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.host.device.base import Kernel, Task, WindowBuffer
from penstock.host.device.storage import key_dtype
from penstock.program import BandProgram, GeneralProgram, Program, empty_code, null_code
from tests.penstock.kit.reference import evaluate

#: Seconds after which a test task counts as hung.
TIMEOUT_S = 120

RANGES = ("random", "full", "empty", "single", "touching", "lapping", "gaps")


@dataclass(frozen=True)
class Join:
    """A program with its data."""

    program: Program
    window: list[np.ndarray]
    stream: list[np.ndarray]
    start: np.ndarray
    end: np.ndarray

    @property
    def window_rows(self) -> int:
        return len(self.window[0])

    @property
    def evaluations(self) -> int:
        return int((self.end - self.start).sum())


def ranges(rng: np.random.Generator, kind: str, rows: int, window: int):
    """Starts and ends of a kind, both non-decreasing, as int64."""
    at = np.arange(rows)
    if kind == "full":
        start, end = np.zeros(rows), np.full(rows, window)
    elif kind == "empty":
        start = end = np.sort(rng.integers(0, window + 1, rows))
    elif kind == "single":
        start = np.sort(rng.integers(0, window, rows))
        end = start + 1
    elif kind == "touching":
        edges = at * window // max(rows, 1), (at + 1) * window // max(rows, 1)
        start, end = edges
    elif kind == "lapping":
        start = at * window // max(rows, 1)
        end = np.minimum(start + max(window // 5, 1), window)
    else:
        start = np.sort(rng.integers(0, window + 1, rows))
        end = np.sort(rng.integers(0, window + 1, rows))
        end = np.maximum(start, end)
        if kind == "gaps":
            end = np.where(rng.random(rows) < 0.5, start, np.minimum(start + 3, window))
            end = np.maximum.accumulate(end)
            end = np.maximum(end, start)
    return np.asarray(start, np.int64), np.asarray(end, np.int64)


def monotone_table(rng: np.random.Generator, tests: int) -> int:
    """Truth table of an OR of one to four random cubes; sometimes constant."""
    points = 1 << tests
    cubes = rng.integers(0 if rng.random() < 0.05 else 1, points, rng.integers(1, 5))
    if rng.random() < 0.05:
        return 0
    return sum(1 << m for m in range(points) if any(m & c == c for c in cubes.tolist()))


def band_join(
    rng: np.random.Generator, tests: int, key_bits: int, rows: int, window: int, kind: str
) -> Join:
    """A band join with NULL keys, empty ranges and a selectivity from 0 to 1."""
    dtype = key_dtype(key_bits)
    null, empty = null_code(key_bits), empty_code(key_bits)
    largest = empty - 1
    # Few distinct values make ties with the bounds likely; the whole range tests the top bit.
    spread = [min(7, largest), min(1000, largest), largest][rng.integers(0, 3)]
    base = [0, largest - spread][rng.integers(0, 2)]

    def codes(count: int) -> np.ndarray:
        return (rng.integers(0, spread, count, np.uint64, endpoint=True) + np.uint64(base)).astype(
            dtype
        )

    keys, bounds = [], []
    reach = float(rng.choice([0.0, 0.01, 0.3, 1.0]))
    for _ in range(tests):
        key = codes(window)
        key[rng.random(window) < 0.1] = null
        low = codes(rows)
        room_above = np.array(largest, dtype) - low
        high = low + np.minimum(room_above, dtype.type(spread * int(reach * 100) // 100))
        if reach == 1.0:
            low = np.where(rng.random(rows) < 0.7, dtype.type(0), low)
        none = rng.random(rows) < 0.1
        low, high = np.where(none, empty, low), np.where(none, empty, high)
        keys.append(key.astype(dtype))
        bounds += [low.astype(dtype), high.astype(dtype)]
    start, end = ranges(rng, kind, rows, window)
    program = BandProgram(tests, monotone_table(rng, tests), key_bits)
    return Join(program, keys, bounds, start, end)


def expected(join: Join) -> np.ndarray:
    """Pairs by brute force, int64 of shape (m, 2), sorted."""
    position = np.arange(join.window_rows)
    hit = (position >= join.start[:, None]) & (position < join.end[:, None])
    if isinstance(join.program, BandProgram):
        outcome = np.zeros(hit.shape, np.int64)
        for d, key in enumerate(join.window[: join.program.tests]):
            low, high = join.stream[2 * d][:, None], join.stream[2 * d + 1][:, None]
            outcome |= ((low <= key) & (key <= high)).astype(np.int64) << d
        points = range(1 << join.program.tests)
        table = np.array([join.program.table >> m & 1 for m in points], bool)
        return np.argwhere(hit & table[outcome])
    return np.array(
        [(i, j) for i, j in np.argwhere(hit).tolist() if _holds(join, i, j)], np.int64
    ).reshape(-1, 2)


def _holds(join: Join, i: int, j: int) -> bool:
    assert isinstance(join.program, GeneralProgram)
    row = {("s", k): plain(column[i]) for k, column in enumerate(join.stream)}
    row |= {("w", k): plain(column[j]) for k, column in enumerate(join.window)}
    return evaluate(join.program.predicate, row) is True


def plain(value: object) -> object:
    """A NumPy scalar as the Python value that the reference computes with."""
    return value.item() if isinstance(value, np.generic) else value


def load(kernel: Kernel, join: Join, pieces: int = 1, spare: int = 0) -> WindowBuffer:
    """A buffer with the window's keys, written in pieces, the last piece first."""
    buffer = kernel.allocate(join.window_rows + spare)
    edges = [join.window_rows * k // pieces for k in range(pieces + 1)]
    for low, high in reversed(list(pairwise(edges))):
        buffer.write(low, [column[low:high] for column in join.window])
    return buffer


def run_to_end(kernel: Kernel, buffer: WindowBuffer, join: Join, room: int) -> list:
    """Results of a join, each as (pairs of shape (m, 2), result), pauses resumed as documented."""
    done = []
    waiting = [(np.arange(len(join.start)), join.start, join.end)]
    while waiting:
        rows, start, end = waiting.pop()
        stream = [column[rows] for column in join.stream]
        result = kernel.submit(buffer, Task(stream, start, end, room)).result(TIMEOUT_S)
        assert len(result.i) == len(result.j) <= room
        assert result.i.dtype == result.j.dtype == np.uint32
        done.append((np.stack([rows[result.i], result.j.astype(np.int64)], axis=1), result))
        if result.pause is None:
            continue
        i0, i1, p = result.pause.i0, result.pause.i1, result.pause.p
        assert 0 <= i0 <= i1 <= len(rows)
        waiting.append((rows[i1:], start[i1:], end[i1:]))
        resumed = np.minimum(np.maximum(start[i0:i1], p), end[i0:i1])
        waiting.append((rows[i0:i1], resumed, end[i0:i1]))
    return done


def sorted_pairs(results: list) -> np.ndarray:
    """All pairs of :func:`run_to_end`, in the order of :func:`expected`."""
    pairs = np.concatenate([pairs for pairs, _ in results])
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
