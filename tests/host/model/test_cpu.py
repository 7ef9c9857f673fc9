"""Calibration of a device of this machine. How well it predicts is measured by ``bench/host``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.host.device.registry import open_device
from penstock.host.model import solve
from penstock.host.model.cpu import Cores, calibrate
from penstock.host.model.load import Load
from tests.host.model.paper_equations import cores_needed, sustainable_rate_per_s

LOAD = Load(rate_per_s=2e4, ratio=2.0, before_s=60.0, after_s=60.0, latency_s=0.2)
CORES = Cores(
    lanes=2, lane_evaluations_per_s=3e9, batch_s=1e-3, tuple_s=1e-6, task_s=1e-6, row_s=1e-7
)


def test_without_other_costs_it_is_equation_5():
    bare = replace(CORES, task_s=0.0, tuple_s=0.0, batch_s=0.0, row_s=0.0)
    rate = solve.sustainable_rate_per_s(bare, LOAD)
    assert rate == pytest.approx(sustainable_rate_per_s(6e9, LOAD.ratio, LOAD.window_s))


@given(st.floats(1e4, 3e5))
def test_cores_are_equation_4_and_a_little(rate):
    load = LOAD.at(rate_per_s=rate)
    lanes = solve.lanes_needed(CORES, load)
    assert lanes is not None
    least = cores_needed(rate, load.ratio, load.window_s, CORES.lane_evaluations_per_s)
    assert least <= lanes
    assert replace(CORES, lanes=lanes).utilisation(load) <= 1


def test_the_hosts_own_work_is_not_shared():
    load = LOAD.at(rate_per_s=1.1e6)
    assert replace(CORES, lanes=1 << 16).utilisation(load) > 1
    assert solve.lanes_needed(CORES, load) is None


def test_rows_take_time_of_all_cores():
    load = LOAD.at(rate_per_s=1e4)
    rows = replace(load, selectivity=1e-3)
    added = CORES.utilisation(rows) - CORES.utilisation(load)
    assert added == pytest.approx(rows.rows_per_s * CORES.row_s / CORES.lanes)
    with pytest.raises(UsageError, match="selectivity must be from 0 to 1, not 2"):
        replace(load, selectivity=2)


def test_calibration():
    with open_device("cpu", threads=2) as device:
        found = calibrate(device, seconds=0.3)
        with pytest.raises(UsageError, match="seconds must be above 0, not 0"):
            calibrate(device, seconds=0)
    assert found.lanes == 2
    # Slower than any core with SIMD, and faster than any: an error of units would be outside.
    assert 1e8 < found.lane_evaluations_per_s < 1e12
    assert 0 <= found.task_s < 1e-1
    assert 0 <= found.row_s < 1e-3
    assert 0 <= found.tuple_s < 1e-3
    assert 0 <= found.batch_s < 1
