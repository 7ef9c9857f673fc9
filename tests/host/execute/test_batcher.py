"""Batches: 60 % at once, half the target between them, nobody waits for more than two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.host.execute.batcher import Batcher


def test_nothing_waits_nothing_is_due() -> None:
    assert Batcher(0.2).due() is None


def test_sixty_percent_at_once_and_the_rest_half_a_target_later() -> None:
    batcher = Batcher(0.2)
    batcher.arrived(10)
    assert (batcher.due() or 0) <= 7.0
    assert batcher.cut(7.0) == 6
    assert batcher.due() == 7.1
    assert batcher.cut(7.1) == 4
    assert batcher.due() is None


def test_idle_lanes_take_all_that_waits_and_soon_more() -> None:
    batcher = Batcher(0.2)
    batcher.arrived(10)
    assert batcher.cut(7.0, idle=True) == 10
    batcher.arrived(5)
    assert batcher.due() == 7.1
    assert batcher.due(idle=True) == 7.02
    assert batcher.cut(7.02, idle=True) == 5
    batcher.arrived(5)
    batcher.took(0.01)
    assert batcher.due(idle=True) == pytest.approx(7.06)
    batcher.took(1.0)
    assert batcher.due(idle=True) == batcher.due() == pytest.approx(7.12)


def test_what_a_batch_may_not_have_is_due_at_once() -> None:
    batcher = Batcher(0.2)
    batcher.arrived(10)
    assert batcher.cut(7.0, most=4) == 4
    assert (batcher.due() or 0) <= 7.0
    assert batcher.cut(7.0, everything=True, most=4) == 4
    assert batcher.cut(7.0, everything=True, most=4) == 2
    assert batcher.due() is None


def test_a_tuple_that_comes_alone_is_not_kept() -> None:
    batcher = Batcher(0.2)
    batcher.arrived(1)
    assert batcher.cut(0.0) == 1


def test_without_a_target_everything_goes_at_once() -> None:
    batcher = Batcher(0)
    batcher.arrived(1000)
    assert batcher.cut(0.0) == 1000


def test_the_end_leaves_nothing() -> None:
    batcher = Batcher(0.2)
    batcher.arrived(1000)
    assert batcher.cut(0.0, everything=True) == 1000


@given(st.lists(st.integers(0, 50), max_size=40))
def test_every_tuple_is_in_one_of_the_next_two_batches(arrivals: list[int]) -> None:
    batcher, now = Batcher(0.2), 0.0
    ages: list[int] = []  # cuts that each waiting tuple has seen, the oldest first
    for count in arrivals:
        ages += [0] * count
        batcher.arrived(count)
        if batcher.due() is not None:
            now = max(now, batcher.due() or 0)
            taken = batcher.cut(now)
            ages = [age + 1 for age in ages[taken:]]
            assert max(ages, default=0) <= 1
    assert batcher.waiting == len(ages)
