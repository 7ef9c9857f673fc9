"""How much plans split and move: the targets, as sums over grids of cases."""

from __future__ import annotations

import importlib.util
import time
import tracemalloc

import numpy as np
import pytest

from bench.routing.quality import at_home, beside_exact, drift, grid, zipf
from penstock.host.routing.loads import Loads
from penstock.host.routing.moves_plan import plan


def test_mnrt_splits_little_and_moves_little():
    sums = grid(4)
    assert sums.mnrt.copies <= 0.6 * sums.qmmp.copies
    assert sums.mnrt.copies <= 1.75 * sums.least_copies
    assert sums.mnrt.moved <= 1.1 * sums.least_moved
    assert sums.qmmp.moved == sums.least_moved


def test_under_drift_mnrt_merges_again_and_keeps_the_table_small():
    mnrt, qmmp = drift("mnrt", 2), drift("qmmp", 2)
    assert mnrt.copies <= 0.05 * qmmp.copies
    assert mnrt.entries <= 0.5 * qmmp.entries


@pytest.mark.skipif(not importlib.util.find_spec("scipy"), reason="scipy is not installed")
@pytest.mark.parametrize("cases", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_mnrt_is_close_to_the_fewest_copies(cases):
    exact, mnrt, qmmp = beside_exact(cases)
    assert exact <= mnrt <= 1.05 * exact
    assert qmmp >= exact


@pytest.mark.parametrize("planner", ["mnrt", "qmmp"])
def test_a_plan_of_a_micro_batch_takes_milliseconds(planner):
    rng = np.random.default_rng(32)
    load = zipf(1024, 1.2, 60_000, rng)
    loads = at_home(load, 32)
    seconds = []
    for _ in range(10):
        began = time.thread_time()
        made = plan(loads, 0.05, planner)
        seconds.append(time.thread_time() - began)
        swapped = rng.choice(1024, 100, replace=False)
        load[swapped] = load[rng.permutation(swapped)]
        loads = made.table.loads(load)
    assert np.median(seconds) <= 0.05


@pytest.mark.parametrize(
    "keys", [pytest.param(10**6, id="1e6"), pytest.param(10**7, id="1e7", marks=pytest.mark.slow)]
)
def test_large_plans_take_little_time_and_memory(keys):
    whole = at_home(zipf(keys, 0.8, 20 * keys, np.random.default_rng(7)), 8)
    arrays = (whole.key, whole.lane, whole.load, whole.size, whole.homes)
    most = {10**6: {"qmmp": 0.2, "mnrt": 1}, 10**7: {"qmmp": 2, "mnrt": 12}}[keys]
    for planner, limit in most.items():
        seconds = []
        for _ in range(3):
            loads = Loads(*arrays[:4], homes=whole.homes, lanes=8)
            began = time.thread_time()
            plan(loads, 0.05, planner)
            seconds.append(time.thread_time() - began)
        assert min(seconds) <= limit
    tracemalloc.start()
    plan(Loads(*arrays[:4], homes=whole.homes, lanes=8), 0.05, "mnrt")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 12 * sum(each.nbytes for each in arrays)
