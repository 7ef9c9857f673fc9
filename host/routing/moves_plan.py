"""Plans that move keys until no lane has more than the limit, and their costs (Algorithm 2)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.errors import DataError, UsageError

from .checked_arrays import below
from .loads import Loads
from .mnrt import plan_carefully
from .moves import Draft, KeyMoves, whole_parts
from .qmmp import plan_quickly
from .table import RoutingTable


@dataclass(frozen=True)
class PlanCosts:
    """Costs of a plan: the paper's O1 to O4.

    Attributes
    ----------
    seconds : float
        O1: time to make the plan.
    entries : int
        O2: keys in the routing table.
    moved : int
        O3: state that moves.
    copies : int
        O4: tuples of split keys that are sent once more, from now on.
    """

    seconds: float
    entries: int
    moved: int
    copies: int


@dataclass(frozen=True)
class Plan:
    """Result of a planner: the moves, and the loads and routing table that follow.

    Attributes
    ----------
    moves : KeyMoves
    loads : Loads
        After the moves.
    table : RoutingTable
        It sends tuples where the loads are.
    limit : int
        The largest load that a lane may have: the paper's UL.
    costs : PlanCosts
    """

    moves: KeyMoves
    loads: Loads
    table: RoutingTable
    limit: int
    costs: PlanCosts


def _all_home(loads: Loads, limit: int, is_open: np.ndarray) -> Draft:
    away = np.flatnonzero(loads.lane != loads.homes[loads.key])
    return whole_parts(loads, away, loads.homes[loads.key[away]])


#: Planners by name; each takes the loads, the largest load of a lane, and which lanes are open.
PLANNERS: dict[str, Callable[[Loads, int, np.ndarray], Draft]] = {
    "mnrt": plan_carefully,
    "qmmp": plan_quickly,
    "hash": _all_home,
}


def plan(
    loads: Loads, tolerance: float, planner: str = "mnrt", *, closed: Iterable[int] = ()
) -> Plan:
    """Plan moves after which no lane has more than the limit.

    Parameters
    ----------
    loads : Loads
    tolerance : float
        How far a lane may be above the mean, as a share of it: the paper's largest imbalance.
    planner : str
        ``mnrt`` splits as little as it can; ``qmmp`` moves as little as can be, in the least time;
        ``hash`` sends all keys home, whatever the limit.
    closed : iterable of int, optional
        Lanes that are removed: all their keys leave. They do not count in the mean.

    Raises
    ------
    UsageError
        There is no such planner, the tolerance is negative or no number, or no lane is left.
    DataError
        A lane that is closed is unknown, or a key has its home there.
    """
    began = time.perf_counter()
    if planner not in PLANNERS:
        raise UsageError(f"there is no planner {planner!r}; take one of {', '.join(PLANNERS)}")
    is_open = np.ones(loads.lanes, bool)
    shut = below(list(closed), "closed lane", loads.lanes, "a lane: there are {} of them")
    is_open[shut] = False
    if not is_open.any():
        raise UsageError(f"all {loads.lanes} lanes are closed; leave one open")
    if len(shut) and not is_open[loads.homes].all():
        at = int(np.argmin(is_open[loads.homes]))
        raise DataError(
            f"key {at} has its home on lane {loads.homes[at]}, which is closed; give homes on the "
            "lanes that are left"
        )
    limit = largest_load(loads.total, int(is_open.sum()), tolerance)
    draft = PLANNERS[planner](loads, limit, is_open)
    after = loads.after(draft)
    table = RoutingTable.from_loads(after)
    copies = after.copies
    costs = PlanCosts(time.perf_counter() - began, len(table), int(draft.size.sum()), copies)
    return Plan(KeyMoves.from_draft(loads, draft), after, table, limit, costs)


def largest_load(total: int, lanes: int, tolerance: float) -> int:
    """Return the largest load of a lane (UL): tolerance above the mean, or the mean rounded up.

    Tuples are whole, so no plan keeps each lane below the mean rounded up.

    Parameters
    ----------
    total, lanes : int
    tolerance : float
        Taken as it is written: 0.1 is a tenth, not the nearest double.

    Raises
    ------
    UsageError
        The tolerance is negative or no number.
    """
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | np.number):
        raise UsageError(f"the tolerance cannot be {tolerance!r}; give a number, such as 0.05")
    if not math.isfinite(tolerance) or tolerance < 0:
        raise UsageError(f"the tolerance cannot be {tolerance}; give 0 or more, such as 0.05")
    most = (1 + Fraction(str(tolerance))) * total / lanes
    return max(math.floor(most), -(-total // lanes))
