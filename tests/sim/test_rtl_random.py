"""Seeded random tasks on Verilated kernels: slow memory, stalls, every selectivity, every range."""

import itertools

import numpy as np
import pytest

from penstock.errors import MissingToolError
from penstock.program import BandProgram
from penstock.sim.measure import band_keys, run_whole
from penstock.sim.rtl_device import RtlDevice
from tests.host.kit.tasks import RANGES, Join, expected, load, ranges, run_to_end, sorted_pairs

#: Memories from ideal to hostile.
MEMORIES = (
    {},
    {"latency_cycles": 64},
    {"bandwidth": 0.25, "latency_cycles": 5},
    {"stalls": 0.5, "latency_cycles": 9, "bandwidth": 0.7},
)
SELECTIVITIES = (0.0, 0.01, 0.5, 1.0)

#: Codes of the test's keys are below this.
SPAN = 10_000


def opened(memory, **build):
    try:
        return RtlDevice(**build, **memory)
    except MissingToolError as cause:
        pytest.skip(str(cause))


def random_join(rng, kind, selectivity, rows, window):
    """A band join in which a pair matches with this probability."""
    start, end = ranges(rng, kind, rows, window)
    width = round(selectivity * SPAN)
    low = rng.integers(0, SPAN - width + 1, rows) if width else np.full(rows, SPAN)
    bounds = [low.astype(np.uint32), (low + max(width - 1, 0)).astype(np.uint32)]
    keys = rng.integers(0, SPAN, window).astype(np.uint32)
    return Join(BandProgram(1, 0b10, 32), [keys], bounds, start, end)


def check(device, join, rooms):
    kernel = device.open(join.program)
    buffer = load(kernel, join, pieces=2, spare=3)
    wanted = expected(join)
    for room in rooms:
        results = run_to_end(kernel, buffer, join, max(room, kernel.min_room))
        np.testing.assert_array_equal(sorted_pairs(results), wanted)
        assert sum(r.counters["evaluations"] for _, r in results) == join.evaluations
    kernel.close()


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=pytest.mark.slow if n in (1, 2) else ()) for n in range(4)]
)
def test_a_few(seed):
    """The build of the other tests of this folder, a memory per seed."""
    rng = np.random.default_rng(seed)
    with opened({**MEMORIES[seed], "seed": seed}, units=8) as device:
        for number, kind in enumerate(RANGES):
            selectivity = SELECTIVITIES[(seed + number) % len(SELECTIVITIES)]
            join = random_join(rng, kind, selectivity, rows=25, window=150)
            check(device, join, (1, 100_000))


@pytest.mark.slow
def test_fast_comparisons():
    with opened(MEMORIES[3], units=8, fast=True) as device:
        for seed, kind in enumerate(RANGES):
            join = random_join(np.random.default_rng(seed), kind, 0.3, rows=25, window=150)
            check(device, join, (1, 100_000))


@pytest.mark.slow
@pytest.mark.parametrize("build", [{"units": 8}, {"units": 40}, {"units": 4, "pipelines": 3}])
@pytest.mark.parametrize("memory", MEMORIES)
def test_many(build, memory):
    rng = np.random.default_rng(len(memory))
    with opened(memory, **build) as device:
        for kind, selectivity, seed in itertools.product(RANGES, SELECTIVITIES, range(3)):
            rows, window = int(rng.integers(1, 120)), int(rng.integers(1, 900))
            join = random_join(rng, kind, selectivity, rows, window)
            check(device, join, (int(rng.integers(1, 300)), 200 * (1 + seed), 1_000_000))


EVERY = BandProgram(tests=1, table=0b10)


@pytest.mark.parametrize("memory", [{}, {"bandwidth": 0.25}])
def test_everything_matches(memory):
    """Nothing is lost where the port cannot take it all; the port then never rests."""
    with opened(memory, units=8) as device:
        found = run_whole(device, EVERY, *band_keys(np.random.default_rng(0), EVERY, 8, 6000, 1))
    assert (found.tasks, found.matches) == (1, 8 * 6000)
    # Two blocks: a word with a record each per window tuple.
    assert found.counters["records"] == 2 * 6000
    assert found.counters["result_words"] == 6000
    assert 0.97 < found.port_use / memory.get("bandwidth", 1) <= 1


def test_too_much_for_one_task():
    """More words than a task has room for: it pauses, and nothing is lost or there twice."""
    with opened({}, units=8) as device:
        keys = band_keys(np.random.default_rng(0), EVERY, 8, 300_000, 1)
        found = run_whole(device, EVERY, *keys)
    assert (found.tasks, found.matches) == (2, 8 * 300_000)
