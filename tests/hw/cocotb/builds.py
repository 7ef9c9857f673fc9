"""Small kernels for the benches, random tasks for them, and what they must find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from penstock.expr import ops
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.program import GeneralProgram
from penstock.types import int_of

#: Largest key of a band task, and distance of a general one: random tasks have matches.
MOST = 40
_RADIUS = 9


@dataclass(frozen=True)
class Task:
    """Prepared stream tuples over a window.

    Parameters
    ----------
    start, end : ndarray
        Ranges, none empty.
    stream, window : tuple of ndarray
        Keys as the kernel has them.
    table : int
        Truth table of a band kernel.
    """

    start: np.ndarray
    end: np.ndarray
    stream: tuple[np.ndarray, ...]
    window: tuple[np.ndarray, ...]
    table: int

    def part(self, rows: np.ndarray, start: np.ndarray) -> Task:
        """Some of its tuples, from later positions on."""
        stream = tuple(column[rows] for column in self.stream)
        return replace(self, start=start, end=self.end[rows], stream=stream)


@dataclass(frozen=True)
class Build:
    """A kernel and its predicate in NumPy.

    Parameters
    ----------
    config : KernelConfig
    matches : callable
        (tuples, positions) booleans of a task: which tuple meets which window tuple.
    """

    config: KernelConfig
    matches: Callable[[Task], np.ndarray]

    def expected(self, task: Task) -> np.ndarray:
        """Pairs (stream tuple, position), one a row, sorted; by brute force."""
        position = np.arange(len(task.window[0]))
        in_range = (task.start[:, None] <= position) & (position < task.end[:, None])
        return np.argwhere(self.matches(task) & in_range)

    def random_task(self, rng: Random, tuples: int, positions: int) -> Task:
        """Ranges that overlap, touch or leave gaps, and keys that match now and then."""
        config = self.config.join
        draw = np.random.default_rng(rng.getrandbits(32))
        longest = rng.choice([1, 5, positions])
        start = np.sort(draw.integers(0, positions, tuples))
        end = np.minimum(start + draw.integers(1, longest + 1, tuples), positions)
        end = np.maximum.accumulate(end)
        if config.is_band:
            low = [draw.integers(0, MOST, tuples) for _ in range(config.tests)]
            high = [np.minimum(column + MOST // 3, MOST) for column in low]
            stream = (*low, *high)
            window = tuple(draw.integers(0, MOST, positions) for _ in range(config.tests))
        else:
            stream = tuple(draw.integers(-_RADIUS, _RADIUS, tuples) for _ in range(2))
            window = tuple(draw.integers(-_RADIUS, _RADIUS, positions) for _ in range(2))
        table = rng.randrange(1, 1 << config.table_bits) if config.is_band else 0
        return Task(start, end, stream, window, table)

    def dense_task(self, tuples: int, positions: int) -> Task:
        """Every tuple meets the whole window."""
        config = self.config.join
        zeros, ones = np.zeros(tuples, np.int64), np.ones(tuples, np.int64)
        keys = (zeros,) * config.tests + (ones,) * config.tests if config.is_band else (zeros,) * 2
        window = (np.zeros(positions, np.int64),) * (config.tests if config.is_band else 2)
        table = 1 << config.table_bits - 1 if config.is_band else 0
        return Task(zeros, zeros + positions, keys, window, table)


def _band_matches(task: Task) -> np.ndarray:
    tests = len(task.window)
    met = np.zeros((len(task.start), len(task.window[0])), np.int64)
    for d, keys in enumerate(task.window):
        low, high = task.stream[d][:, None], task.stream[tests + d][:, None]
        met |= ((low <= keys) & (keys <= high)).astype(np.int64) << d
    return (task.table >> met & 1).astype(bool)


def _general_matches(task: Task) -> np.ndarray:
    dx, dy = (s[:, None] - w for s, w in zip(task.stream, task.window, strict=True))
    return dx * dx + dy * dy < _RADIUS**2


def _circle() -> GeneralProgram:
    number = int_of(12, nullable=False)
    s = [ops.key("s", i, number) for i in range(2)]
    w = [ops.key("w", i, number) for i in range(2)]
    dx, dy = (ops.sub(a, b) for a, b in zip(s, w, strict=True))
    near = ops.lt(ops.add(ops.mul(dx, dx), ops.mul(dy, dy)), ops.const(_RADIUS * _RADIUS))
    return GeneralProgram((number, number), (number, number), near)


def _band() -> Build:
    join = JoinConfig(units=6, units_per_block=2, tests=2, key_bits=16)
    sizes = {"burst_words": 16, "read_words": 32, "write_words": 16, "lane_records": 4}
    return Build(replace(KernelConfig.fit(join), **sizes), _band_matches)


def _small() -> Build:
    join = JoinConfig(units=2, units_per_block=2, tests=1, key_bits=8)
    sizes = {"burst_words": 16, "read_words": 16, "write_words": 16, "lane_records": 4}
    return Build(replace(KernelConfig.fit(join), **sizes), _band_matches)


def _general() -> Build:
    join = JoinConfig(units=4, units_per_block=2, program=_circle())
    sizes = {"burst_words": 64, "read_words": 128, "write_words": 64, "lane_records": 4}
    return Build(replace(KernelConfig.fit(join), **sizes), _general_matches)


#: Builds by name: bursts of a quarter page with hardly any room; bursts of whole pages; and one
#: that is quickly built, for mutations.
BUILDS: dict[str, Callable[[], Build]] = {"band": _band, "general": _general, "small": _small}
