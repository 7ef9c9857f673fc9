"""Open-loop runs: what arrives, what is counted, what counts as bounded."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from bench.host.modelled import ModelledDevice
from bench.host.open_loop import Latencies, Measured, run
from bench.host.report import TARGETS, highest_bounded
from bench.host.runs import Run
from bench.host.soak import run as soak
from bench.host.soak import verdict
from bench.host.traffic import PREDICATES, US_PER_S, Traffic
from penstock.host.devices.cpu import CpuDevice
from penstock.plan.forms import join_form


@pytest.mark.parametrize("workload", PREDICATES)
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_traffic_has_its_rate_its_ratio_and_its_results(workload: str, ratio: float) -> None:
    traffic = Traffic(
        workload=workload, rate_per_s=4000, ratio=ratio, window_s=0.5, results_per_s=20_000
    )
    ticks = list(traffic.ticks(2.0, 0.01))
    t, x, y = {}, {}, {}
    for name in "ab":
        parts = [tick.batches[name] for tick in ticks]
        t[name], x[name], y[name] = (
            np.concatenate([part[column].to_numpy() for part in parts]).astype(np.int64)
            for column in "txy"
        )
    assert len(t["a"]) / len(t["b"]) == pytest.approx(ratio, rel=0.01)
    assert len(t["a"]) + len(t["b"]) == pytest.approx(8000, abs=2)
    near = np.abs(t["a"][:, None] - t["b"]) <= 0.5 * US_PER_S
    met = {
        "ride": lambda d: (
            np.abs(d(x)) + np.abs(d(y)) < (1 << 20) * (traffic.selectivity / 2) ** 0.5
        ),
        "network": lambda d: (
            ((x["a"][:, None] ^ x["b"]) < 256) | ((y["a"][:, None] ^ y["b"]) < 256)
        ),
    }[workload](lambda column: column["a"][:, None] - column["b"])
    # Windows are full after half a second; the last half second's tuples meet no later ones.
    assert (near & met).sum() / 1.75 == pytest.approx(20_000, rel=0.15)
    assert join_form(traffic.query().predicate, "r").not_band is None


def test_results_are_timed_from_their_schedule() -> None:
    traffic = Traffic(rate_per_s=2000, window_s=0.2, results_per_s=2000)
    with ModelledDevice(8) as device:
        found = run(device, traffic, latency_s=0.05, measured_s=0.5)
    assert found.latencies.results == pytest.approx(1000, rel=0.3)
    assert found.tuples_per_s == pytest.approx(2000, rel=0.01)
    # A batch is cut when there is something in it, and none leaves before it has arrived.
    assert 0 < found.latencies.at(0.01) < found.latencies.at(0.99)
    assert sum(second.tuples for second in found.seconds) <= 0.9 * 2000
    assert Measured.from_json(json.loads(json.dumps(found.as_json()))) == found


def test_the_highest_load_in_its_bound() -> None:
    asked = Run(units=16, load=1.0, window_s=1, target_s=0.1, measured_s=1, results=1)

    def one(p99_s: float, kept_up: bool = True) -> Measured:
        latencies = Latencies.of(np.full(10, p99_s))
        return Measured(latencies, 1.0, kept_up, [])

    good, bad = 0.1 * TARGETS, 0.11 * TARGETS
    found = {0.5: one(good), 0.8: one(good), 0.9: one(bad), 1.0: one(good, kept_up=False)}
    assert highest_bounded(asked, found) == (0.8, found[0.8])
    assert highest_bounded(replace(asked, target_s=0.01), found) is None


@pytest.mark.slow
def test_a_short_soak_grows_nothing() -> None:
    traffic = Traffic(rate_per_s=2000, window_s=0.5, results_per_s=2000)
    with CpuDevice() as device:
        lines = list(soak(device, traffic, 30.0, 0.2))
    assert len(lines) == 10
    assert all(line.results > 0 for line in lines)
    # In half a minute of a busy machine, what waits shows more than what would leak.
    assert verdict(lines, most_growth=0.1) == []
