"""Places of many ascending times among others, in one walk over both."""

from __future__ import annotations

import numpy as np

from penstock.plan.ranges import Side

from ..kept_code import kept

#: Times per value above which binary searches read less than the walk.
MOST_PER_VALUE = 16


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
    found = np.empty(len(values), np.int64)
    _walk(times[:last], values, side == "right", first, found)
    return found


@kept()
def _walk(times, values, after, place, found):
    for k in range(len(values)):
        value = values[k]
        if after:
            while place < len(times) and times[place] <= value:
                place += 1
        else:
            while place < len(times) and times[place] < value:
                place += 1
        found[k] = place
