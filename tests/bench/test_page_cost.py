"""The cost of a page, in a short form."""

from __future__ import annotations

from bench.host.page_cost import cost


def test_a_look_is_short() -> None:
    look_s, _ = cost(3)  # of so few turns the samples' cost says nothing
    assert 0 < look_s < 0.05
