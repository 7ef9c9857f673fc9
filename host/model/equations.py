"""Equations (2) and (5) of the FJoin paper, section 3.5.

Rates are tuples per second, a capacity is predicate evaluations per second. A window that reaches
``before_s`` into the past and ``after_s`` into the future is as much work as one of
``window_s = (before_s + after_s) / 2`` on both sides, the paper's ϖ.
"""

from __future__ import annotations

import math


def mean_window_s(before_s: float, after_s: float) -> float:
    """The paper's ϖ of a window ``[-before_s, +after_s]``: half of its length.

    The later tuple of each pair does the evaluation. So tuples of R meet the tuples of S of the
    last ``before_s``, and tuples of S those of R of the last ``after_s``.
    """
    return (before_s + after_s) / 2


def _work(ratio: float, window_s: float) -> float:
    """Evaluations per second at a rate of one tuple per second: the factor of T² in (2)."""
    return 2 * window_s * ratio / (ratio + 1) ** 2


def evaluations_per_s(rate_per_s: float, ratio: float, window_s: float) -> float:
    """Evaluations per second that a join needs, equation (2).

    Parameters
    ----------
    rate_per_s : float
        T, tuples of both streams.
    ratio : float
        γ, rate of R over rate of S.
    window_s : float
        ϖ, see :func:`mean_window_s`.
    """
    return _work(ratio, window_s) * rate_per_s**2


def sustainable_rate_per_s(capacity_per_s: float, ratio: float, window_s: float) -> float:
    """Largest T that evaluations at this capacity sustain, equation (5)."""
    return math.sqrt(capacity_per_s / _work(ratio, window_s))
