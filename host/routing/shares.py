"""Rows of a split cell dealt to its lanes, each lane its share to one row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def bounds(weights: np.ndarray, count: int) -> np.ndarray:
    """Return the row at which each lane's share ends, of ``count`` rows dealt by weight.

    The end is the sum of weights up to the lane, scaled to the rows and rounded down, so a lane
    gets its share rounded up or down. Python's integers do not overflow.
    """
    shares = weights.tolist()
    total, before, ends = sum(shares), 0, []
    for share in shares:
        before += share
        ends.append(before * count // total)
    return np.array(ends, np.int64)


def deal(
    weights: np.ndarray,
    offsets: np.ndarray,
    entry: np.ndarray,
    count: np.ndarray,
    ordinal: np.ndarray,
) -> np.ndarray:
    """Choose a lane of its entry for each row (ONE in Algorithm 1).

    Parameters
    ----------
    weights, offsets : ndarray of int64
        Of all entries, as a routing table has them.
    entry, count, ordinal : ndarray of int64, shape (rows,)
        The row's entry, how many rows are dealt there, and the row's number among them.

    Returns
    -------
    ndarray of int64, shape (rows,)
        Places among the lanes of the entry, from 0 on.
    """
    place = np.empty(len(entry), np.int64)
    order = np.lexsort((count, entry))
    entry, count = entry[order], count[order]
    new = (np.diff(entry, prepend=-1) != 0) | (np.diff(count, prepend=-1) != 0)
    stops = np.append(np.flatnonzero(new), len(order)).tolist()
    for begin, end in pairwise(stops):
        mine = slice(offsets[entry[begin]], offsets[entry[begin] + 1])
        ends = bounds(weights[mine], int(count[begin]))
        rows = order[begin:end]
        place[rows] = np.searchsorted(ends, ordinal[rows], "right")
    return place
