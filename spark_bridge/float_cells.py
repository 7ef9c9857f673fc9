"""Routing cells of floats: ranges of their codes, and how far a band reaches from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.host.emit.groups.floats import ordered, unordered
from penstock.types import FLOAT64

#: Beyond it, by whether floats have 32 bits, a sum may have become infinite.
_MOST = {True: 2.0**126, False: 2.0**1022}
#: A share of a double is smaller.
_SINGLE = 2.0**-30


def reach_of_floats(
    bounds: Sequence[int], low: float, high: float, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """First and last cell of what may lie in a band about the values of each cell.

    Parameters
    ----------
    bounds : sequence of int
        Code of the least value of each cell but the first, rising. NaN is in the last cell.
    low, high : float
        Ends of the band.
    share : float
        Of a value, by how much it may reach further.
    """
    codes = np.array(bounds, np.int64)
    values, most = unordered(codes, FLOAT64), _MOST[share > _SINGLE]
    begin, end = np.append(-np.inf, values), np.append(values, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        least = np.where(np.isinf(begin), begin, begin + low - 4 * share * np.abs(begin))
        largest = np.where(np.isinf(end), end, end + high + 4 * share * np.abs(end))
    # Where sums may overflow, numbers and infinity reach each other. NaN reaches itself.
    least = np.where(least < -most, -np.inf, np.minimum(least, most))
    largest = np.where(largest > most, np.inf, np.maximum(largest, -most))
    first, last = (np.searchsorted(codes, ordered(each), "right") for each in (least, largest))
    return first, last
