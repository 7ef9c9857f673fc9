"""QMMP: the planner that takes the least time and moves the least load (Algorithm 3)."""

from __future__ import annotations

import numpy as np

from .loads import Loads
from .moves import Draft, cut_parts, together, whole_parts


def plan_quickly(loads: Loads, limit: int, is_open: np.ndarray) -> Draft:
    """Move the load above the limit from overloaded lanes to lanes below the mean.

    The first parts of a lane leave it, in the order of keys; the last of them may be cut. As
    prefix sums, the leaving loads are laid end to end over the room of the lanes below the mean:
    a part that crosses the end of a room is cut there.

    Parameters
    ----------
    loads : Loads
    limit : int
        The largest load of a lane.
    is_open : ndarray of bool, shape (lanes,)
        Lanes that may hold keys; all keys of the others leave.
    """
    by_lane = loads.by_lane
    excess = np.where(is_open, np.maximum(by_lane - limit, 0), by_lane)
    sends = (excess > 0) | ~is_open
    row = np.flatnonzero(sends[loads.lane])
    if not len(row):
        return cut_parts(loads, ())
    # 16 bits are sorted by counting, in linear time.
    lane = loads.lane[row].astype(np.uint16 if loads.lanes <= 1 << 16 else np.int64)
    order = np.argsort(lane, kind="stable")
    row, lane = row[order], lane[order]
    load = loads.load[row]
    begin = np.cumsum(load) - load
    first = np.flatnonzero(np.diff(lane.astype(np.int64), prepend=-1))
    within = begin - np.repeat(begin[first], np.diff(np.append(first, len(row))))
    due = excess[lane]
    leaves = np.where(is_open[lane], (within < due) & (load > 0), True)
    row, amount = row[leaves], np.minimum(load, due - within)[leaves]

    mean = -(-loads.total // int(is_open.sum()))
    room = np.where(is_open, np.maximum(mean - by_lane, 0), 0)
    gets = np.flatnonzero(is_open & (by_lane < mean))
    if not len(gets):  # there is no load, so any lane will do
        gets = np.flatnonzero(is_open)
    ends = np.cumsum(room[gets])
    begin = np.cumsum(amount) - amount
    last = len(gets) - 1
    at = np.minimum(np.searchsorted(ends, begin, "right"), last)
    to = np.minimum(np.searchsorted(ends, begin + amount, "left"), last)
    simple = (amount == loads.load[row]) & (at >= to)
    cuts = []
    for k in np.flatnonzero(~simple).tolist():
        start, end = int(begin[k]), int(begin[k] + amount[k])
        for place in range(int(at[k]), int(to[k]) + 1):
            stop = end if place == last else min(end, int(ends[place]))
            cuts.append((int(row[k]), stop - start, int(gets[place])))
            start = stop
    return together(whole_parts(loads, row[simple], gets[at[simple]]), cut_parts(loads, cuts))
