"""Random loads, and a plain evaluation of what a plan did, cell by cell in dictionaries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import strategies as st

from penstock.host.routing.loads import Loads
from penstock.host.routing.moves_plan import Plan

Held = dict[int, dict[int, int]]

#: Loads of one part: none, ties, uneven, far apart, and so large that doubles are not exact.
AMOUNTS = st.one_of(
    st.just(0),
    st.integers(1, 3),
    st.integers(0, 100),
    st.integers(0, 10**6),
    st.integers(0, 1 << 55),
)


@st.composite
def any_loads(draw: st.DrawFn) -> Loads:
    """Keys anywhere, split or whole, at home or not, with any loads and sizes."""
    lanes = draw(st.integers(1, 9))
    lane = st.integers(0, lanes - 1)
    homes = draw(st.lists(lane, min_size=1, max_size=24))
    amount = draw(st.sampled_from([AMOUNTS, st.integers(0, 5), st.integers(1, 60)]))
    parts = []
    for key in range(len(homes)):
        kind = draw(st.sampled_from(["home", "home", "home", "away", "split", "none"]))
        there: set[int] = {homes[key]} if kind == "home" else set()
        if kind == "away":
            there = {draw(lane)}
        elif kind == "split":
            there = draw(st.sets(lane, min_size=1))
        parts += [(key, each, draw(amount), draw(AMOUNTS)) for each in sorted(there)]
    if draw(st.booleans()):
        parts = draw(st.permutations(parts))
    only = draw(st.sampled_from([None, None, None, 0]))
    if only is not None and parts:  # one key has all of the load
        hot = parts[0][0]
        parts = [(key, at, load if key == hot else 0, size) for key, at, load, size in parts]
    columns = np.array(parts, np.int64).reshape(-1, 4).T
    return Loads(*columns, homes=homes, lanes=lanes)


def held(loads: Loads) -> Held:
    """Load of each key on each lane."""
    found: Held = defaultdict(dict)
    columns = (loads.key.tolist(), loads.lane.tolist(), loads.load.tolist())
    for key, lane, load in zip(*columns, strict=True):
        assert lane not in found[key]
        found[key][lane] = load
    return dict(found)


def totals(loads: Loads, column: str) -> dict[int, int]:
    """What each key has in all, of its load or size."""
    found: dict[int, int] = defaultdict(int)
    for key, amount in zip(loads.key.tolist(), getattr(loads, column).tolist(), strict=True):
        found[key] += amount
    return dict(found)


def busiest(parts: Held, lanes: int) -> list[int]:
    """Load of each lane."""
    found = [0] * lanes
    for there in parts.values():
        for lane, load in there.items():
            found[lane] += load
    return found


def copies(parts: Held) -> int:
    """Tuples that are sent once more."""
    return sum(sum(there.values()) * (len(there) - 1) for there in parts.values())


def apply(loads: Loads, plan: Plan) -> Held:
    """The parts that follow when the moves are made one by one."""
    parts = held(loads)
    names = ("key", "amount", "source", "target")
    for key, amount, source, target in zip(
        *(getattr(plan.moves, name).tolist() for name in names), strict=True
    ):
        assert source != target
        parts[key][source] -= amount
        assert parts[key][source] >= 0
        parts[key][target] = parts[key].get(target, 0) + amount
    return parts


def loaded(parts: Held) -> Held:
    """The parts that have load."""
    found = {key: {at: load for at, load in there.items() if load} for key, there in parts.items()}
    return {key: there for key, there in found.items() if there}


@contextmanager
def unchanged(loads: Loads) -> Iterator[None]:
    """See that nothing changes the loads."""
    before = [each.copy() for each in (loads.key, loads.lane, loads.load, loads.size, loads.homes)]
    yield
    after = (loads.key, loads.lane, loads.load, loads.size, loads.homes)
    assert all(map(np.array_equal, before, after))
