"""Finds the places of many ascending values among ascending times, in one walk over both."""

from __future__ import annotations

import numpy as np

from penstock.kept_code import kept
from penstock.plan.ranges import Side

#: Times per value above which binary searches read less than the walk.
MOST_PER_VALUE = 16
#: Times that are compared with a value together.
GROUP = 8


def ascending_places(times: np.ndarray, values: np.ndarray, side: Side) -> np.ndarray:
    """Find places as :func:`numpy.searchsorted` does.

    Parameters
    ----------
    times, values : ndarray of int64
        Both ascending.
    """
    if not len(values):
        return np.zeros(0, np.int64)
    first, last = np.searchsorted(times, values[[0, -1]], side).tolist()
    if last - first > MOST_PER_VALUE * len(values):
        return np.searchsorted(times, values, side)
    places = np.empty(len(values), np.int64)
    _walk(times[:last], values, side == "right", first, places)
    return places


def _search(times, values, after, first, places):
    places[:] = np.searchsorted(times, values, "right" if after else "left")


@kept(plain=_search)
def _walk(times, values, after, first, places):
    place, count = np.uint64(first), np.uint64(len(times))
    one, group, least = np.uint64(1), np.uint64(GROUP), np.iinfo(np.int64).min
    for k in range(len(values)):
        last = values[k]  # the last time that the value's place is after
        passes = after or last > least
        last -= np.int64(not after)
        # Counted without branches: nothing predicts how many times lie between two values.
        while passes and place + group <= count:
            passed = np.uint64(0)
            for n in range(np.uint64(GROUP)):
                passed += np.uint64(times[place + n] <= last)
            place += passed
            passes = passed == group
        while passes and place < count and times[place] <= last:
            place += one
        places[k] = place
