"""Limits of complete groups: few calls of an expression, for any order of times."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.host.emit.groups.closing import RisingSteps
from tests.kit.effort import effort


class Counted:
    """A function that rises by steps of some length, and counts its calls."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.calls = 0

    def __call__(self, time: int) -> int:
        self.calls += 1
        return time // self.length * self.length


@pytest.mark.parametrize("seed", range(effort(100, 20)))
def test_values_are_those_of_the_function(seed):
    rng = np.random.default_rng(seed)
    counted = Counted(int(rng.integers(1, 60)))
    steps, time = RisingSteps(counted), int(rng.integers(-500, 500))
    for _ in range(200):
        time += int(rng.integers(0, (2, 9, 90)[seed % 3]))
        if rng.random() < 0.1:
            time -= int(rng.integers(0, 100))
        assert steps.at(time) == time // counted.length * counted.length
    assert steps.at(-(1 << 63)) <= steps.at(1 << 62)


def test_times_of_one_step_need_few_calls():
    counted = Counted(1000)
    steps = RisingSteps(counted)
    for time in range(100_000):
        steps.at(time)
    assert counted.calls < 100 * 25


def test_no_call_goes_ahead_where_each_time_has_its_own_value():
    counted = Counted(10)
    steps = RisingSteps(counted)
    for time in range(0, 100_000, 10):
        steps.at(time)
    assert counted.calls < 10_000 + 50
