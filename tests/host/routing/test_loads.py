"""Loads that are refused, and what is known of those that are not."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import DataError, PenstockError, UsageError
from penstock.host.routing.loads import Loads
from penstock.host.routing.moves_plan import plan

_MOST = (1 << 63) - 1


def loads(load=(5, 5), *, key=(0, 1), lane=(0, 1), size=None, homes=(0, 1), lanes=2):
    """Two keys on two lanes, with what is said otherwise."""
    return Loads(key, lane, load, size, homes=homes, lanes=lanes)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"load": [5, -1]}, "load -1 is negative"),
        ({"size": [5, -7]}, "size -7 is negative"),
        ({"load": [5.0, float("nan")]}, "load nan is no whole number"),
        ({"load": [5, float("inf")]}, "load inf is no whole number"),
        ({"load": [5, 0.5]}, "load 0.5 is no whole number"),
        ({"load": [5, 1 << 63]}, "is no whole number of 64 bits"),
        ({"load": [5, 1 << 80]}, "is no whole number of 64 bits"),
        ({"load": [5.0, 2.0**63]}, "is no whole number of 64 bits"),
        ({"load": np.array([5, 1 << 63], np.uint64)}, "is no whole number of 64 bits"),
        ({"load": ["5", "6"]}, "give whole numbers"),
        ({"load": [True, False]}, "give whole numbers"),
        ({"load": [[5, 5]]}, "2 dimensions"),
        ({"load": [_MOST, 1]}, "coarser unit"),
        ({"size": [_MOST, 1]}, "coarser unit"),
        ({"load": [5]}, "one of each per part"),
        ({"key": [0, 0], "lane": [1, 1]}, "key 0 has two parts on lane 1; add them up"),
        ({"key": [0, 2]}, "key 2 is unknown"),
        ({"key": [0, -1]}, "key -1 is unknown"),
        ({"lane": [0, 2]}, "lane 2 is unknown"),
        ({"lane": [0, -1]}, "lane -1 is unknown"),
        ({"homes": [0, 2]}, "home 2 is unknown"),
    ],
)
def test_wrong_loads_are_refused(wrong, message):
    with pytest.raises(DataError, match=message):
        loads(**wrong)


@pytest.mark.parametrize("lanes", [0, -1, 1.5, None, True])
def test_lanes_are_one_or_more(lanes):
    with pytest.raises(UsageError, match="take 1 or more"):
        loads(lanes=lanes)


@pytest.mark.parametrize("tolerance", [-0.01, float("nan"), float("inf"), None, "0.1", True])
@pytest.mark.parametrize("planner", ["mnrt", "hash"])
def test_wrong_tolerances_are_refused(tolerance, planner):
    with pytest.raises(UsageError, match=r"such as 0\.05"):
        plan(loads(), tolerance, planner)


def test_unknown_planners_are_refused_with_those_there_are():
    with pytest.raises(UsageError, match="'readj'; take one of mnrt, qmmp, hash"):
        plan(loads(), 0.1, "readj")


@pytest.mark.parametrize(
    ("closed", "message"),
    [
        ([2], "closed lane 2 is unknown"),
        ([0, 1], "leave one open"),
        ([1], "key 1 has its home on lane 1, which is closed"),
    ],
)
def test_wrong_closed_lanes_are_refused(closed, message):
    with pytest.raises(PenstockError, match=message):
        plan(loads(), 0.1, "qmmp", closed=closed)


def test_sums_at_the_end_of_64_bits_are_exact():
    found = loads([_MOST - 3, 3])
    assert found.total == _MOST
    assert found.by_lane.tolist() == [_MOST - 3, 3]
    for planner in ("mnrt", "qmmp"):
        made = plan(found, 0, planner)
        assert sorted(made.loads.by_lane.tolist()) == [_MOST // 2, _MOST // 2 + 1]
        parts = np.bincount(made.loads.key).tolist()
        assert made.costs.copies == sum((_MOST - 3, 3)[k] * (n - 1) for k, n in enumerate(parts))


def test_copies_beyond_64_bits_are_exact():
    homes = [0]
    found = Loads([0] * 9, range(9), [_MOST // 9] * 9, homes=homes, lanes=9)
    assert found.copies == _MOST // 9 * 9 * 8


def test_parts_are_put_in_order_and_given_arrays_stay():
    key, lane = np.array([2, 0, 2]), np.array([1, 1, 0])
    found = loads([7.0, 8.0, 9.0], key=key, lane=lane, homes=[0, 0, 0])
    assert found.key.tolist() == [0, 2, 2]
    assert found.lane.tolist() == [1, 0, 1]
    assert found.load.tolist() == [8, 9, 7]
    assert found.load.dtype == np.int64
    assert key.tolist() == [2, 0, 2]
    assert found.copies == 16


@pytest.mark.parametrize("planner", ["mnrt", "qmmp", "hash"])
def test_nothing_can_be_planned(planner):
    made = plan(Loads([], [], [], homes=[], lanes=3), 0.1, planner)
    assert len(made.moves) == len(made.table) == made.limit == 0
