"""Loads, and the questions that any model answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.host.execute.batcher import Batcher
from penstock.host.model import solve
from penstock.host.model.load import Load, latency
from penstock.host.model.pipeline_cycles import PipelineModel, TransferLink
from tests.host.model.paper_equations import sustainable_rate_per_s
from tests.kit.effort import examples

LOAD = Load(rate_per_s=5e4, ratio=1.0, before_s=180.0, after_s=180.0, latency_s=0.2)
CARD = PipelineModel(units=1024, clock_hz=300e6)

LOADS = st.builds(
    Load,
    rate_per_s=st.floats(100, 1e6),
    ratio=st.floats(0.1, 10),
    before_s=st.floats(0.1, 300),
    after_s=st.floats(0, 300),
    latency_s=st.floats(0.01, 2),
)


class TestArguments:
    @pytest.mark.parametrize("name", ["rate_per_s", "ratio", "latency_s"])
    @pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
    def test_load_above_0(self, name, value):
        with pytest.raises(UsageError, match=f"{name} must be above 0, not"):
            replace(LOAD, **{name: value})

    def test_load_window(self):
        with pytest.raises(UsageError, match="before_s must not be negative, not -1"):
            replace(LOAD, before_s=-1.0)
        with pytest.raises(UsageError, match="window must have a length above 0"):
            replace(LOAD, before_s=0.0, after_s=0.0)

    @pytest.mark.parametrize("name", ["units", "clock_hz", "pipelines"])
    def test_pipelines(self, name):
        with pytest.raises(UsageError, match=r"must be (above 0|1 to 65536), not 0"):
            replace(CARD, **{name: 0})

    def test_link(self):
        with pytest.raises(UsageError, match="bandwidth_bytes_per_s must be above 0, not 0"):
            TransferLink(bandwidth_bytes_per_s=0)
        with pytest.raises(UsageError, match="transfer_s must not be negative, not -1"):
            TransferLink(transfer_s=-1)


@given(LOADS)
def test_probes_are_all_evaluations(load):
    met = sum(probe.evaluations for probe in load.probes) / load.interval_s
    assert met == pytest.approx(load.evaluations_per_s)


@settings(max_examples=examples(50))
@given(LOADS, st.integers(2, 4096), st.integers(1, 4))
def test_sustained_rate_is_the_border(load, units, pipelines):
    model = PipelineModel(units=units, clock_hz=300e6, pipelines=pipelines)
    rate = solve.sustainable_rate_per_s(model, load)
    assert model.utilisation(load.at(rate_per_s=rate)) <= 1
    assert model.utilisation(load.at(rate_per_s=rate * 1.001)) > 1
    # Equation (5) with every cycle used is more.
    assert rate < sustainable_rate_per_s(units * pipelines * 300e6, load.ratio, load.window_s)


@settings(max_examples=examples(50))
@given(LOADS, st.integers(1, 4))
def test_fewest_units(load, pipelines):
    units = solve.units_needed(load, 300e6, pipelines)
    if units is None:
        most = PipelineModel(units=1 << 16, clock_hz=300e6, pipelines=pipelines)
        assert most.utilisation(load) > 1
        return
    enough = PipelineModel(units=units, clock_hz=300e6, pipelines=pipelines)
    assert enough.utilisation(load) <= 1
    if units > 1:
        assert replace(enough, units=units - 1).utilisation(load) > 1


class TestLatency:
    def test_overload_has_none(self):
        assert latency(CARD, LOAD.at(rate_per_s=1e6)) is None

    def test_waiting_is_what_the_batcher_does(self):
        """A steady arrival through the batcher waits as long as the model says."""
        batcher, step_s, now = Batcher(LOAD.latency_s), LOAD.interval_s / 1000, 0.0
        came: list[float] = []
        waits: list[float] = []
        for _ in range(60_000):
            now += step_s
            came.append(now)
            batcher.arrived(1)
            due = batcher.due()
            if due is not None and due <= now:
                taken = batcher.cut(now)
                waits += [now - at for at in came[:taken]]
                del came[:taken]
        settled = np.array(waits[len(waits) // 2 :])
        found = latency(CARD, LOAD)
        assert found is not None
        busy_s = CARD.utilisation(LOAD) * LOAD.interval_s
        assert settled.mean() + busy_s == pytest.approx(found.mean_s, rel=0.02)
        assert settled.max() + busy_s == pytest.approx(found.worst_s, rel=0.02)


class TestTransfers:
    @given(LOADS, st.floats(1e-6, 1e-3))
    def test_smallest_target_fills_the_link(self, load, transfer_s):
        link = TransferLink(transfer_s=transfer_s)
        target = link.smallest_latency_s(load)
        assert target is not None
        assert link.utilisation(load.at(latency_s=target)) == pytest.approx(1)
        assert link.utilisation(load.at(latency_s=target * 0.99)) > 1

    def test_slow_link(self):
        assert TransferLink(bandwidth_bytes_per_s=1e6).smallest_latency_s(LOAD) is None

    def test_smallest_target_heeds_both(self):
        slow = TransferLink(transfer_s=2e-2)
        fast, both = (solve.smallest_latency_s(CARD, LOAD, link) for link in (None, slow))
        assert fast is not None
        assert both is not None
        assert CARD.utilisation(LOAD.at(latency_s=fast)) <= 1
        assert fast < both
        assert both == pytest.approx(slow.smallest_latency_s(LOAD), rel=0.02)
        assert solve.smallest_latency_s(CARD, LOAD.at(rate_per_s=1e6)) is None
