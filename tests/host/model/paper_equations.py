"""Equations (1) and (3) to (5) of the FJoin paper, section 3.5, as references."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from penstock.host.model.load import evaluations_per_s


def evaluations_by_slice(
    tuples_r: Sequence[float], tuples_s: Sequence[float], window_slices: int
) -> np.ndarray:
    """Evaluations in each time slice, equation (1).

    Parameters
    ----------
    tuples_r, tuples_s : sequence of float, shape (n,)
        Tuples that arrive in each slice.
    window_slices : int
        Length of the window in slices, the current one included.

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    r, s = np.asarray(tuples_r, np.float64), np.asarray(tuples_s, np.float64)
    window = np.ones(window_slices)
    r_in_window, s_in_window = (np.convolve(side, window)[: len(side)] for side in (r, s))
    return r * s_in_window + s * r_in_window


def core_evaluations_per_s(
    too_few_cores: float, enough_cores: float, rate_per_s: float, ratio: float, window_s: float
) -> float:
    """Evaluations per second of a core, equation (3).

    Parameters
    ----------
    too_few_cores, enough_cores : float
        Numbers of cores that failed and that sustained the rate in a measurement.
    rate_per_s, ratio, window_s : float
        As in :func:`evaluations_per_s`.
    """
    return 2 * evaluations_per_s(rate_per_s, ratio, window_s) / (too_few_cores + enough_cores)


def cores_needed(
    rate_per_s: float, ratio: float, window_s: float, core_evaluations_per_s: float
) -> float:
    """Cores for a rate, equation (4); not rounded up."""
    return evaluations_per_s(rate_per_s, ratio, window_s) / core_evaluations_per_s


def pipelines_evaluations_per_s(pipelines: Iterable[tuple[float, float, int]]) -> float:
    """Capacity of pipelines, the sum of η·f·n_b in equation (5).

    Parameters
    ----------
    pipelines : iterable of (float, float, int)
        Share of the cycles that evaluate (η), clock in Hz (f), and units (n_b) of each.
    """
    return sum(use * clock_hz * units for use, clock_hz, units in pipelines)


def sustainable_rate_per_s(capacity_per_s: float, ratio: float, window_s: float) -> float:
    """Largest T that evaluations at this capacity sustain, equation (5)."""
    return math.sqrt(capacity_per_s / evaluations_per_s(1, ratio, window_s))
