"""Ranges of window positions per stream tuple (docs/device-contract.md).

Exactness comes from these ranges: a pair is found once because of which side probes which run, and
the time test needs no hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ..types import INT64

Side = Literal["left", "right"]
#: As :func:`numpy.searchsorted`, which is called with ascending values only.
Search = Callable[[np.ndarray, np.ndarray, Side], np.ndarray]

_MIN, _MAX = INT64
#: Times that are looked for together: they fit a cache.
_BLOCK = 1 << 16
_SPAN = 1 << 64


def time_ranges(
    stream: np.ndarray,
    window: np.ndarray,
    low: int | None,
    high: int | None,
    search: Search = np.searchsorted,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions ``[start, end)`` with ``low <= window[j] - stream[i] <= high``.

    Parameters
    ----------
    stream, window : ndarray of int64
        Times, both ascending.
    low, high : int or None
        Offsets, both included; None is unbounded.
    search : callable
        Finds places of ascending times.

    Returns
    -------
    start, end : ndarray of int64, shape (len(stream),)
        Both non-decreasing, ``start <= end``.
    """
    n = len(stream)
    if low is None:
        start = np.zeros(n, dtype=np.int64)
    else:
        start = _places(window, stream, low, "left", search)
    if high is None:
        return start, np.full(n, len(window), dtype=np.int64)
    end = _places(window, stream, high, "right", search)
    return start, np.maximum(start, end, out=end)


def place(times: np.ndarray, moment: int, *, after: bool = False) -> int:
    """How many of ascending int64 times lie before a moment, or with ``after`` not after it.

    The moment may be any integer, also one that no row's time can be.
    """
    if not _MIN <= moment <= _MAX:
        return len(times) if moment > _MAX else 0
    return int(np.searchsorted(times, moment, side="right" if after else "left"))


def _places(
    window: np.ndarray, times: np.ndarray, by: int, side: Side, search: Search
) -> np.ndarray:
    """Places of ``times + by`` among the window's times, exact beyond the ends of int64, too."""
    low, high = place(times, _MIN - by), place(times, _MAX - by, after=True)
    found = np.empty(len(times), np.int64)
    found[:low], found[high:] = 0, len(window)
    done = 0
    for at in range(low, high, _BLOCK):
        own = found[at : min(at + _BLOCK, high)]
        own[:] = search(window[done:], _moved(times[at : at + len(own)], by), side)
        own += done
        done = int(own[-1])
    return found


def shifted(times: np.ndarray, by: int) -> np.ndarray:
    """``times + by``, stopping at the ends of int64 instead of wrapping."""
    # What fits is exact modulo 2**64, however far the shift.
    moved = _moved(times, by)
    most, least = _MAX - by, _MIN - by  # of a time that stays inside
    if by > 0:
        moved[times > most if most >= _MIN else slice(None)] = _MAX
    if by < 0:
        moved[times < least if least <= _MAX else slice(None)] = _MIN
    return moved


def _moved(times: np.ndarray, by: int) -> np.ndarray:
    return (times.view(np.uint64) + np.uint64(by % _SPAN)).view(np.int64)


def arrival_order(
    left: np.ndarray, right: np.ndarray, search: Search = np.searchsorted
) -> tuple[np.ndarray, np.ndarray]:
    """How many of the other side arrived before each tuple, in (time, left first, row) order.

    Parameters
    ----------
    left, right : ndarray of int64
        Times, ascending.
    search : callable
        Finds places of ascending times.

    Returns
    -------
    before_left, before_right : ndarray of int64
        Right rows before each left row; left rows before each right row.
    """
    before_left = search(right, left, "left").astype(np.int64, copy=False)
    return before_left, search(left, right, "right").astype(np.int64, copy=False)
