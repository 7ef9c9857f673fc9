"""Memory of a join whose consumer stands still, short."""

from __future__ import annotations

import pytest

from bench.host.memory import Plan, measured


@pytest.mark.parametrize("ordered", [False, True])
def test_a_process_grows_by_little_more_than_its_budget(ordered: bool) -> None:
    plan = Plan(memory_bytes=32 << 20, latency_s=0.02, seconds=2.0, ordered=ordered)
    found = measured(plan)
    assert plan.memory_bytes // 8 < found.counted_bytes <= plan.memory_bytes
    assert found.within(plan), found
