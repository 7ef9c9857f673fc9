"""What the benches of pruning count: cycles of a kernel, bytes written to a device."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs pip install 'penstock[rtl]'")

from bench.host.written import CASES, Sink, written
from bench.hw.pruning import before_pause, cycles_of
from penstock.host.device.base import Pause, Task
from penstock.host.device.registry import open_device
from penstock.hw.join.config import JoinConfig
from penstock.program import BandProgram

PROGRAM = BandProgram(tests=2, table=0b1000, key_bits=32)
UNITS = 4


def repeated(rng: np.random.Generator, tuples: int, window: int) -> Task:
    """Short ranges in an order of places: many loads, and gaps between them."""
    start = np.sort(rng.integers(0, window - 20, tuples))
    end = np.maximum.accumulate(start + rng.integers(1, 20, tuples))
    none = [np.full(tuples, bound, np.uint32) for bound in (1, 0, 1, 0)]
    return Task(none, start, end, 1000)


@pytest.mark.parametrize("tuples", [3, 40, 90])
def test_cycles_of_repeated_tuples(tuples: int) -> None:
    """Beside the pipeline alone, without the memory around it."""
    rng = np.random.default_rng(tuples)
    task, window = repeated(rng, tuples, 300), rng.integers(0, 99, (2, 300), np.uint32)
    with open_device("amaranth", units=UNITS) as device:
        kernel = device.open(PROGRAM)
        buffer = kernel.allocate(300)
        buffer.write(0, list(window))
        result = kernel.submit(buffer, task).result(120)
        kernel.close()
    counted = cycles_of(JoinConfig(units=UNITS, tests=2), task)
    assert abs(counted - result.counters["cycles"]) < 50
    assert counted == pytest.approx(result.counters["cycles"], rel=0.08, abs=40)


def test_what_a_paused_task_did() -> None:
    start, end = np.array([0, 2, 4, 6]), np.array([5, 7, 9, 11])
    done = before_pause(Task([], start, end, 10), Pause(1, 3, 6))
    assert done.start.tolist() == [0, 2, 4]
    assert done.end.tolist() == [5, 6, 6]


@pytest.mark.parametrize("searches", [False, True])
def test_bytes_written(searches: bool) -> None:
    """Without pruning the keys of each row, and what is written again as buffers grow."""
    case = CASES[1]
    every, pruned = (
        written(case, Sink(searches=searches), 40_000, 60_000, pruning=pruning)
        for pruning in (False, True)
    )
    assert set(+every) == {"windows"}
    assert 4 <= every["windows"] <= 12
    assert sum(pruned.values()) > every["windows"] / 2
    assert bool(pruned["order and directory"]) == searches
