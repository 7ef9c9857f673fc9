"""Ranges of window positions per stream tuple (docs/device-contract.md).

Exactness comes from these ranges: a pair is found once because of which side probes which run, and
the time test needs no hardware.
"""

from __future__ import annotations

import numpy as np

_MIN, _MAX = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


def time_ranges(
    stream: np.ndarray, window: np.ndarray, low: int | None, high: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Positions ``[start, end)`` with ``low <= window[j] - stream[i] <= high``.

    Parameters
    ----------
    stream, window : ndarray of int64
        Times, both ascending.
    low, high : int or None
        Offsets, both included; None is unbounded.

    Returns
    -------
    start, end : ndarray of int64, shape (len(stream),)
        Both non-decreasing, ``start <= end``.
    """
    n = len(stream)
    if low is None:
        start = np.zeros(n, dtype=np.int64)
    else:
        start = np.searchsorted(window, shifted(stream, low), side="left")
    if high is None:
        end = np.full(n, len(window), dtype=np.int64)
    else:
        end = np.searchsorted(window, shifted(stream, high), side="right")
    return start.astype(np.int64), np.maximum(start, end).astype(np.int64)


def shifted(times: np.ndarray, by: int) -> np.ndarray:
    """``times + by``, stopping at the ends of int64 instead of wrapping."""
    by = min(max(by, 3 * _MIN), 3 * _MAX)  # more than that moves every time to an end
    while by > _MAX:
        times, by = shifted(times, _MAX), by - _MAX
    while by < _MIN:
        times, by = shifted(times, _MIN), by - _MIN
    with np.errstate(over="ignore"):
        if by >= 0:
            return np.where(times > _MAX - by, _MAX, times + np.int64(by))
        return np.where(times < _MIN - by, _MIN, times + np.int64(by))


def rows_ranges(arrived: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``rows`` latest of the other side when each tuple arrives.

    Parameters
    ----------
    arrived : ndarray of int64
        How many of the other side arrived before, non-decreasing.
    rows : int
        Size of the other side's window.
    """
    return np.maximum(arrived - rows, 0), arrived


def rows_met(
    arrived: np.ndarray, rows: int, own_rows: int, others: int
) -> tuple[np.ndarray, np.ndarray]:
    """All rows of the other side that each tuple meets, before and after its own arrival.

    They are one range: the ``rows`` latest when it arrives, and those that arrive while it is
    among the ``own_rows`` latest of its own side.

    Parameters
    ----------
    arrived : ndarray of int64, shape (n,)
        How many of the other side arrived before each tuple, non-decreasing.
    rows, own_rows : int
        Sizes of the other side's and of the own side's window.
    others : int
        Rows of the other side altogether.
    """
    end = np.full(len(arrived), others, dtype=np.int64)
    if own_rows < len(arrived):
        end[:-own_rows] = arrived[own_rows:]
    return np.maximum(arrived - rows, 0), end


def arrival_order(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many of the other side arrived before each tuple, in (time, left first, row) order.

    Parameters
    ----------
    left, right : ndarray of int64
        Times, ascending.

    Returns
    -------
    before_left, before_right : ndarray of int64
        Right rows before each left row; left rows before each right row.
    """
    before_left = np.searchsorted(right, left, side="left").astype(np.int64)
    before_right = np.searchsorted(left, right, side="right").astype(np.int64)
    return before_left, before_right
