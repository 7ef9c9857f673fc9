"""Overload, short: a slow device, a source that sheds, and a join that is back afterwards."""

from __future__ import annotations

import numpy as np

from bench.host.modelled import ModelledDevice
from bench.host.overload import Plan, run
from bench.host.soak import Line, verdict
from bench.host.traffic import US_PER_S, Traffic
from penstock.host.model import solve
from penstock.host.model.pipeline_cycles import PipelineModel

#: A device that a few thousand tuples per second keep busy, so that the host has little to do.
UNITS, CLOCK_HZ, LANES = 4, 1e6, 2
TARGET_S = 0.2


def test_memory_stays_in_its_budget_and_latency_comes_back() -> None:
    traffic = Traffic(rate_per_s=1000, window_s=0.25, results_per_s=2000)
    model = PipelineModel(units=UNITS, clock_hz=CLOCK_HZ, pipelines=LANES)
    rate = solve.sustainable_rate_per_s(model, traffic.load(TARGET_S))
    traffic = Traffic(rate_per_s=rate / 2, window_s=0.25, results_per_s=2000)
    plan = Plan(
        traffic=traffic,
        factor=4,
        before_s=0.75,
        overload_s=1,
        after_s=1.5,
        latency_s=TARGET_S,
        memory_bytes=400_000,
        tick_s=0.02,
    )
    with ModelledDevice(UNITS, lanes=LANES, clock_hz=CLOCK_HZ) as device:
        found = run(device, plan)
    assert 0 < found.highest_bytes <= plan.memory_bytes
    assert 0 < found.shed < found.arrived
    # Beside each other in one run: how long either is depends on what else the machine does.
    assert found.after_p99_s < found.overload_p99_s


def test_ticks_follow_the_load() -> None:
    traffic = Traffic(rate_per_s=1000, window_s=0.1, results_per_s=10)
    plan = Plan(
        traffic=traffic, factor=3, before_s=1, overload_s=1, after_s=1, latency_s=0.1,
        memory_bytes=1, tick_s=0.1,
    )  # fmt: skip
    sizes = [sum(batch.num_rows for batch in tick.batches.values()) for tick in plan.ticks()]
    assert [sum(sizes[k : k + 10]) for k in (0, 10, 20)] == [1000, 3000, 1000]
    for tick in plan.ticks():
        for batch in tick.batches.values():
            assert (batch["t"].to_numpy() < tick.due_s * US_PER_S).all()
            assert (np.diff(batch["t"].to_numpy()) >= 0).all()


def test_what_grows_is_named() -> None:
    def lines(rss: list[float], files: int = 5) -> list[Line]:
        return [
            Line(k, round(size), 7, files if k == 9 else 5, 1, 0.1) for k, size in enumerate(rss)
        ]

    flat = [90.0] * 2 + [100.0] * 8
    assert verdict(lines(flat)) == []
    assert verdict(lines([*flat[:8], 101.9, 101.9])) == []
    assert verdict(lines([*flat[:8], 103, 103])) == ["memory grew by 3.0%, more than 2%"]
    assert verdict(lines(flat, files=6)) == ["files grew from 5 to 6"]
