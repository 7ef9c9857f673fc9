"""MNRT: the planner that splits few keys and keeps the routing table small (Algorithm 4)."""

from __future__ import annotations

import numpy as np

from .assignment import Assignment
from .bring_together import merge, return_home
from .exchanging import make_room
from .loads import Loads
from .moves import Draft
from .placing import place
from .unloading import unload

#: Rounds of sending keys home and merging; each makes room for the next.
_ROUNDS = 8


def plan_carefully(loads: Loads, limit: int, is_open: np.ndarray) -> Draft:
    """Unload lanes, place what they had with few splits, then merge and return what fits.

    Parameters
    ----------
    loads : Loads
    limit : int
        The largest load of a lane.
    is_open : ndarray of bool, shape (lanes,)
        Lanes that may hold keys; all keys of the others leave.
    """
    state = Assignment(loads, limit, is_open)
    for lane in range(loads.lanes):
        if state.load[lane] > limit or not state.is_open[lane]:
            unload(state, lane)
    place(state)
    merge(state)
    make_room(state)
    for _ in range(_ROUNDS):
        merge(state)
        if not return_home(state):
            break
    merge(state)
    return state.draft()
