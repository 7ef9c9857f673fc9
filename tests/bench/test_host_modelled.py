"""Modelled lanes: exact results, and not before the kernel would have them."""

from __future__ import annotations

import time
from concurrent.futures import wait

import numpy as np
import pytest

from bench.host.modelled import ModelledDevice
from bench.host.search import CHUNK, deciding_tests
from penstock.host.device.base import Task
from penstock.host.model.load import BatchHalf
from penstock.host.model.pipeline_cycles import task_cycles
from penstock.program import BandProgram
from tests.host.kit.tasks import (
    RANGES,
    TIMEOUT_S,
    Join,
    band_join,
    expected,
    run_to_end,
    sorted_pairs,
)

MANHATTAN = BandProgram(tests=2, table=0b1000)


@pytest.mark.parametrize("kind", RANGES)
def test_pairs_are_those_of_brute_force(kind: str) -> None:
    rng = np.random.default_rng(RANGES.index(kind))
    with ModelledDevice(units=64, clock_hz=1e12) as device:
        for _ in range(20):
            join = band_join(rng, int(rng.integers(1, 4)), 32, 40, 300, kind)
            if device.refuses(join.program) is not None:
                continue
            kernel = device.open(join.program)
            window = kernel.allocate(512)
            window.write(0, join.window)
            results = run_to_end(kernel, window, join, room=1 << 20)
            assert sorted_pairs(results).tolist() == expected(join).tolist()
            assert results[0][1].counters["evaluations"] == join.evaluations


def test_windows_of_many_chunks_and_keys_written_again() -> None:
    rng = np.random.default_rng(5)
    size = 2 * CHUNK + 1000
    keys = [rng.integers(1 << 31, (1 << 31) + 5000, size, np.uint32) for _ in range(2)]
    with ModelledDevice(units=64, clock_hz=1e12) as device:
        kernel = device.open(MANHATTAN)
        window = kernel.allocate(4 * CHUNK)
        for _ in range(2):
            window.write(0, keys)
            start = np.sort(rng.integers(0, size // 2, 50))
            end = start + size // 2
            low = [rng.integers(1 << 31, (1 << 31) + 5000, 50, np.uint32) for _ in range(2)]
            stream = [low[0], low[0] + np.uint32(200), low[1], low[1] + np.uint32(200)]
            join = Join(MANHATTAN, keys, stream, start, end)
            found = sorted_pairs(run_to_end(kernel, window, join, room=1 << 20))
            assert len(found) > 1000
            assert found.tolist() == expected(join).tolist()
            keys = [column[::-1].copy() for column in keys]


def test_deciding_tests_are_met_by_every_true_outcome() -> None:
    assert deciding_tests(MANHATTAN) == (0,)
    assert deciding_tests(BandProgram(tests=2, table=0b1110)) == (0, 1)
    assert deciding_tests(BandProgram(tests=3, table=0b11101000)) == (0, 1)


def test_a_lane_takes_one_task_after_the_other_for_their_cycles() -> None:
    size, rows, tasks = 20_000, 64, 6
    with ModelledDevice(units=16, lanes=2, clock_hz=10e6) as device:
        kernel = device.open(MANHATTAN)
        window = kernel.allocate(size)
        window.write(0, [np.arange(size, dtype=np.uint32)] * 2)
        bounds = [np.full(rows, 7, np.uint32)] * 4
        task = Task(bounds, np.zeros(rows, np.int64), np.full(rows, size, np.int64), 1000)
        each = task_cycles(BatchHalf(rows, size, 0.0), 16) / 10e6
        kernel.submit(window, task).result(TIMEOUT_S)  # compiles
        began = time.monotonic()
        assert not wait([kernel.submit(window, task) for _ in range(tasks)], TIMEOUT_S).not_done
        assert time.monotonic() - began >= tasks / 2 * each
        assert all(one.delivered >= one.due for one in device.times)
        assert device.counters()["tasks"] == tasks + 1
