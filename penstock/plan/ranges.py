"""Ranges of window positions per stream tuple (docs/device-contract.md).

Exactness comes from these ranges: a pair is found once because of which side probes which run, and
the time test needs no hardware.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..types import INT64

_MIN, _MAX = INT64
_SPAN = 1 << 64


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
    start = np.zeros(n, dtype=np.int64)
    end = np.full(n, len(window), dtype=np.int64)
    if low is not None:
        start = _places(window, stream, low, "left")
    if high is not None:
        end = _places(window, stream, high, "right")
    return start, np.maximum(start, end)


def place(times: np.ndarray, moment: int, *, after: bool = False) -> int:
    """How many of ascending int64 times lie before a moment, or with ``after`` not after it.

    The moment may be any integer, also one that no row's time can be.
    """
    if not _MIN <= moment <= _MAX:
        return len(times) if moment > _MAX else 0
    return int(np.searchsorted(times, moment, side="right" if after else "left"))


def _places(
    window: np.ndarray, times: np.ndarray, by: int, side: Literal["left", "right"]
) -> np.ndarray:
    """Places of ``times + by`` among the window's times, exact beyond the ends of int64, too."""
    moved = shifted(times, by)
    found = np.searchsorted(window, moved, side=side).astype(np.int64)
    above, below = _beyond(times, by)
    found[above], found[below] = len(window), 0
    return found


def shifted(times: np.ndarray, by: int) -> np.ndarray:
    """``times + by``, stopping at the ends of int64 instead of wrapping."""
    # What fits is exact modulo 2**64, however far the shift.
    moved = (times.view(np.uint64) + np.uint64(by % _SPAN)).view(np.int64)
    above, below = _beyond(times, by)
    moved[above], moved[below] = _MAX, _MIN
    return moved


def _beyond(times: np.ndarray, by: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks of ``times + by`` above and below the range of int64."""
    none = np.zeros(len(times), dtype=bool)
    most, least = _MAX - by, _MIN - by  # of a time that stays inside
    above = none if by <= 0 else ~none if most < _MIN else times > most
    below = none if by >= 0 else ~none if least > _MAX else times < least
    return above, below


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
