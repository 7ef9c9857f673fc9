"""What each plan must keep, whatever the loads."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.host.routing.loads import Loads
from penstock.host.routing.moves_plan import PLANNERS, Plan, largest_load, plan
from tests.host.routing.kit import (
    any_loads,
    apply,
    busiest,
    copies,
    held,
    loaded,
    totals,
    unchanged,
)

TOLERANCES = st.sampled_from([0, 0.0, 0.05, 0.1, 0.3, 1, 7.5])
BALANCING = st.sampled_from(["mnrt", "qmmp"])
ALL = st.sampled_from(sorted(PLANNERS))
ONE_HOT_KEY = Loads([3], [2], [1_000_003], homes=[0, 0, 0, 1], lanes=7)


def most_allowed(total: int, lanes: int, tolerance: float) -> int:
    """The largest load of a lane, by the definition."""
    mean = Fraction(total, lanes)
    return max(math.floor((1 + Fraction(str(tolerance))) * mean), math.ceil(mean))


def check(loads: Loads, made: Plan) -> None:
    """What holds of any plan: nothing is lost, and moves, loads, table and costs agree."""
    after = held(made.loads)
    assert loaded(apply(loads, made)) == loaded(after)
    for column in ("load", "size"):
        assert totals(loads, column) == totals(made.loads, column)
    assert made.loads.by_lane.tolist() == busiest(after, loads.lanes)
    assert made.costs.copies == copies(after)
    assert made.costs.moved == sum(made.moves.size.tolist())
    homes = loads.homes.tolist()
    entries = {key for key, there in after.items() if set(there) != {homes[key]}}
    assert made.table.cells.tolist() == sorted(entries)
    assert made.costs.entries == len(entries)
    assert made.costs.seconds > 0
    offsets, lanes = made.table.probe(np.array(sorted(after), np.int64))
    for place, key in enumerate(sorted(after)):
        assert lanes[offsets[place] : offsets[place + 1]].tolist() == sorted(after[key])


def resized(loads: Loads, homes: list[int], lanes: int) -> Loads:
    """The same parts with other homes, on more lanes, or on fewer."""
    return Loads(loads.key, loads.lane, loads.load, loads.size, homes=homes, lanes=lanes)


@settings(max_examples=300, deadline=None)
@given(any_loads(), TOLERANCES, BALANCING)
@example(ONE_HOT_KEY, 0, "mnrt")
@example(ONE_HOT_KEY, 0, "qmmp")
@example(ONE_HOT_KEY, 0.3, "mnrt")
def test_no_lane_has_more_than_the_limit(loads, tolerance, planner):
    with unchanged(loads):
        made = plan(loads, tolerance, planner)
    assert made.limit == most_allowed(sum(loads.load.tolist()), loads.lanes, tolerance)
    assert max(busiest(held(made.loads), loads.lanes)) <= made.limit
    check(loads, made)


@settings(max_examples=100, deadline=None)
@given(any_loads(), TOLERANCES)
def test_hash_sends_all_keys_home(loads, tolerance):
    made = plan(loads, tolerance, "hash")
    check(loads, made)
    assert len(made.table) == 0
    assert made.loads.copies == 0


@settings(max_examples=200, deadline=None)
@given(any_loads(), TOLERANCES)
def test_qmmp_moves_the_excess_and_no_more(loads, tolerance):
    made = plan(loads, tolerance, "qmmp")
    excess = [max(0, load - made.limit) for load in busiest(held(loads), loads.lanes)]
    assert sum(made.moves.amount.tolist()) == sum(excess)
    assert (made.moves.amount > 0).all()


@settings(max_examples=300, deadline=None)
@given(any_loads(), TOLERANCES)
def test_mnrt_leaves_no_key_split_that_fits_on_one_of_its_lanes(loads, tolerance):
    made = plan(loads, tolerance, "mnrt")
    after = held(made.loads)
    load = busiest(after, loads.lanes)
    for key, there in after.items():
        if len(there) > 1:
            total = sum(there.values())
            fits = [at for at, some in there.items() if load[at] - some + total <= made.limit]
            assert not fits, key


@settings(max_examples=300, deadline=None)
@given(any_loads(), TOLERANCES)
def test_mnrt_leaves_no_whole_key_away_that_fits_at_home(loads, tolerance):
    made = plan(loads, tolerance, "mnrt")
    after = held(made.loads)
    load = busiest(after, loads.lanes)
    for key, there in after.items():
        home = int(loads.homes[key])
        if len(there) == 1 and home not in there:
            assert load[home] + sum(there.values()) > made.limit


@settings(max_examples=150, deadline=None)
@given(any_loads(), TOLERANCES, BALANCING)
def test_planning_again_splits_no_more(loads, tolerance, planner):
    first = plan(loads, tolerance, planner)
    again = plan(first.loads, tolerance, planner)
    assert again.costs.copies <= first.costs.copies
    if planner == "qmmp":
        assert len(again.moves) == 0


@settings(max_examples=200, deadline=None)
@given(any_loads(), TOLERANCES, ALL, st.data())
def test_lanes_that_are_closed_are_unloaded_whole(loads, tolerance, planner, data):
    lane = st.integers(0, loads.lanes - 1)
    closed = data.draw(st.sets(lane, max_size=loads.lanes - 1))
    left = [each for each in range(loads.lanes) if each not in closed]
    homes = [data.draw(st.sampled_from(left)) for _ in loads.homes]
    loads = resized(loads, homes, loads.lanes)
    made = plan(loads, tolerance, planner, closed=closed)
    check(loads, made)
    after = held(made.loads)
    assert not closed & {at for there in after.values() for at in there}
    if planner != "hash":
        assert made.limit == most_allowed(sum(loads.load.tolist()), len(left), tolerance)
        assert max(busiest(after, loads.lanes)) <= made.limit


@settings(max_examples=100, deadline=None)
@given(any_loads(), st.integers(1, 4), TOLERANCES, BALANCING)
def test_lanes_that_are_added_are_filled(loads, more, tolerance, planner):
    lanes = loads.lanes + more
    wider = resized(loads, [key % lanes for key in range(len(loads.homes))], lanes)
    made = plan(wider, tolerance, planner)
    check(wider, made)
    assert max(busiest(held(made.loads), lanes)) <= most_allowed(
        sum(loads.load.tolist()), lanes, tolerance
    )


@pytest.mark.parametrize("planner", ["mnrt", "qmmp"])
def test_the_papers_example(planner):
    """Figure 1: nine keys on three nodes, ideally 1,000 each."""
    load = np.array([100, 300, 150, 300, 500, 250, 200, 700, 500])
    for homes in ([0, 0, 0, 1, 1, 1, 2, 2, 2], [0] * 9, [0, 0, 0, 0, 1, 1, 1, 2, 2]):
        loads = Loads(np.arange(9), homes, load, homes=homes, lanes=3)
        made = plan(loads, 0, planner)
        check(loads, made)
        assert made.limit == 1000
        assert made.loads.by_lane.tolist() == [1000, 1000, 1000]
        if planner == "mnrt":  # 700 + 300, 500 + 500, and the others: no key need be split
            assert made.costs.copies == 0


def test_many_small_keys_on_one_lane_are_placed_in_bulk():
    keys = 50_000
    homes = np.zeros(keys, np.int64)
    loads = Loads(np.arange(keys), homes, np.arange(keys) % 7, homes=homes, lanes=8)
    for planner in ("mnrt", "qmmp"):
        made = plan(loads, 0, planner)
        assert made.loads.by_lane.max() <= made.limit
        assert np.array_equal(np.bincount(made.loads.key, made.loads.load), np.arange(keys) % 7)
    assert plan(loads, 0, "mnrt").costs.copies == 0


def test_the_limit_takes_the_tolerance_as_it_is_written():
    assert largest_load(1000, 1, 0.1) == 1100
    assert largest_load(1000, 1, 0.3) == 1300  # 0.3 as a double is a little less
    assert largest_load(10, 4, 0) == 3
    assert largest_load(0, 4, 0.05) == 0
    assert largest_load((1 << 63) - 1, 1, 0) == (1 << 63) - 1
