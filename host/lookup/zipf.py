"""Shares of a Zipf distribution: how often the most frequent keys come (paper 5, equation 3)."""

from __future__ import annotations

import numpy as np

#: Terms that are added one by one; what follows is integrated.
_EXACT = 1 << 16


def harmonic(keys: float, exponent: float) -> float:
    """H(n, s): the sum of ``k ** -s`` for k from 1 to n; n may be broken beyond the first terms.

    The tail follows from the Euler-Maclaurin formula; its error is below 1e-9 of the sum.
    """
    if keys <= 0:
        return 0.0
    exact = int(min(keys, _EXACT))
    total = float((np.arange(1, exact + 1, dtype=np.float64) ** -exponent).sum())
    if keys <= _EXACT:
        return total

    def between(low: float, high: float) -> float:
        if exponent == 1:
            return float(np.log(high / low))
        return (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)

    low, high = float(exact), float(keys)
    total += between(low, high) + (high**-exponent - low**-exponent) / 2
    return total - exponent * (high ** (-exponent - 1) - low ** (-exponent - 1)) / 12


def top_share(top: float, keys: float, exponent: float) -> float:
    """Share of rows whose key is among the ``top`` most frequent ones (p1, equation 3)."""
    return harmonic(min(top, keys), exponent) / harmonic(keys, exponent)


def pages_wanted(rows: float, pages: float) -> float:
    """Expected number of distinct pages that this many evenly spread rows ask for."""
    return pages * (1 - (1 - 1 / pages) ** rows) if pages > 1 else min(rows, pages)
