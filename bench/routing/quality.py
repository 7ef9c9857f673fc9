"""How much plans split and move, beside the least that is possible."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from bench.routing.homes import ByHash
from penstock.host.routing.loads import Loads
from penstock.host.routing.moves_plan import plan

KEYS, EXPONENTS = (100, 1000), (0.5, 0.8, 1.0, 1.2)
LANES, TOLERANCES = (4, 8, 16), (0.0, 0.05, 0.1)
#: Tuples of all keys of a case.
_TUPLES = 1_000_000


@dataclass
class Sums:
    """Costs of some plans, added up."""

    copies: int = 0
    moved: int = 0
    entries: int = 0


def zipf(keys: int, exponent: float, tuples: int, rng: np.random.Generator) -> np.ndarray:
    """Loads of keys by Zipf's law, each 1 or more, in random order."""
    weights = np.arange(1, keys + 1) ** -float(exponent)
    loads = np.maximum(np.rint(weights / weights.sum() * tuples), 1)
    return rng.permutation(loads.astype(np.int64))


def at_home(load: np.ndarray, lanes: int) -> Loads:
    """All keys at their homes by hash."""
    cells = np.arange(len(load))
    homes = ByHash().homes(cells, lanes)
    return Loads(cells, homes, load, homes=homes, lanes=lanes)


def least_copies(load: np.ndarray, limit: int) -> int:
    """A bound: each key alone on as few lanes as can hold it."""
    return int((load * (-(-load // max(limit, 1)) - 1)).clip(0).sum())


@dataclass
class Grid:
    """Sums over all cases of the grid."""

    mnrt: Sums
    qmmp: Sums
    least_copies: int = 0
    least_moved: int = 0


def grid(seeds: int) -> Grid:
    """Plan each case of the grid for some orders of its keys."""
    sums = Grid(Sums(), Sums())
    for seed, keys, exponent, lanes in product(range(seeds), KEYS, EXPONENTS, LANES):
        rng = np.random.default_rng([seed, keys, round(10 * exponent), lanes])
        loads = at_home(zipf(keys, exponent, _TUPLES, rng), lanes)
        for tolerance in TOLERANCES:
            _add(sums.qmmp, loads, tolerance, "qmmp")
            limit = _add(sums.mnrt, loads, tolerance, "mnrt")
            sums.least_copies += least_copies(loads.load, limit)
            sums.least_moved += int(np.maximum(loads.by_lane - limit, 0).sum())
    return sums


def _add(sums: Sums, loads: Loads, tolerance: float, planner: str) -> int:
    made = plan(loads, tolerance, planner)
    if made.loads.by_lane.max() > made.limit:
        raise AssertionError(f"{planner} left a lane above the limit")
    sums.copies += made.costs.copies
    sums.moved += made.costs.moved
    sums.entries += made.costs.entries
    return made.limit


def drift(planner: str, seeds: int) -> Sums:
    """Costs of 30 steps, the table carried on: 100 of 1,000 keys swap loads before each."""
    sums = Sums()
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 30])
        load = zipf(1000, 0.8, 100_000, rng)
        loads = at_home(load, 8)
        for _ in range(30):
            made = plan(loads, 0.05, planner)
            sums.copies += made.costs.copies
            sums.moved += made.costs.moved
            sums.entries += made.costs.entries
            swapped = rng.choice(1000, 100, replace=False)
            load[swapped] = load[rng.permutation(swapped)]
            loads = made.table.loads(load)
    return sums


def small_case(number: int) -> tuple[Loads, float]:
    """A case that can be solved exactly: 3 to 8 keys anywhere on 2 to 4 lanes."""
    rng = np.random.default_rng([number, 500])
    lanes, keys = int(rng.integers(2, 5)), int(rng.integers(3, 9))
    if number % 2:
        load = zipf(keys, rng.choice([0, 0.5, 1, 1.5]), int(rng.integers(20, 200)), rng)
    else:
        load = rng.integers(1, 50, keys)
    homes = rng.integers(0, lanes, keys)
    tolerance = float(rng.choice([0, 0.05, 0.1, 0.2]))
    return Loads(np.arange(keys), homes, load, homes=homes, lanes=lanes), tolerance


def fewest_copies(load: np.ndarray, lanes: int, limit: int) -> int:
    """The fewest copies of any plan, by an exact integer program.

    Its unknowns are each key's load on each lane, and whether there is any.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import eye_array, hstack, kron

    keys = len(load)
    cells = keys * lanes
    of_key = kron(eye_array(keys), np.ones((1, lanes)))
    of_lane = kron(np.ones((1, keys)), eye_array(lanes))
    none = np.zeros((keys + lanes, cells))
    most = np.repeat(load, lanes).astype(float)
    rules = [
        LinearConstraint(hstack([of_key, none[:keys]]).tocsr(), load, load),
        LinearConstraint(hstack([of_lane, none[:lanes]]).tocsr(), 0, limit),
        LinearConstraint(
            hstack([eye_array(cells), eye_array(cells).multiply(-most)]).tocsr(), -np.inf, 0
        ),
    ]
    is_there = np.repeat([0, 1], cells)
    found = milp(
        np.where(is_there, np.tile(most, 2), 0),
        constraints=rules,
        integrality=is_there,
        bounds=Bounds(0, np.where(is_there, 1, np.tile(most, 2))),
        options={"time_limit": 60},
    )
    if found.status:
        raise AssertionError(f"no exact solution: {found.message}")
    return round(found.fun) - int(load.sum())


def beside_exact(cases: int) -> tuple[int, int, int]:
    """Copies of the exact solution, of MNRT and of QMMP, over small cases."""
    exact = mnrt = qmmp = 0
    for number in range(cases):
        loads, tolerance = small_case(number)
        made = plan(loads, tolerance, "mnrt")
        mnrt += made.costs.copies
        qmmp += plan(loads, tolerance, "qmmp").costs.copies
        exact += fewest_copies(loads.load, loads.lanes, made.limit)
    return exact, mnrt, qmmp
