"""Ranges of window positions per stream tuple (docs/inside/device-contract.md).

Exactness comes from these ranges: a pair is found once because of which side probes which run, and
the time test needs no hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np

from ..types import INT64

Side = Literal["left", "right"]
#: As :func:`numpy.searchsorted`, which is called with ascending values only.
Search = Callable[[np.ndarray, np.ndarray, Side], np.ndarray]

_MIN, _MAX = INT64
#: Times that are looked for together: they fit a cache.
_BLOCK = 1 << 16
#: Fewest times for a second thread, which takes longer to start than to find 100,000 places.
_LEAST_SHARED = 1 << 19
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
    if low is None or high is None:
        start, end = np.zeros(n, np.int64), np.full(n, len(window))
        if low is not None:
            _places(window, stream, low, "left", search, start)
        if high is not None:
            _places(window, stream, high, "right", search, end)
        return start, end
    start, end = np.empty(n, np.int64), np.empty(n, np.int64)
    if n < _LEAST_SHARED:
        _places(window, stream, low, "left", search, start)
        _places(window, stream, high, "right", search, end)
    else:
        with ThreadPoolExecutor(1, "penstock-ranges") as other:
            ends = other.submit(_places, window, stream, high, "right", search, end)
            _places(window, stream, low, "left", search, start)
            ends.result()
    return start, np.maximum(start, end, out=end) if low > high else end


def place(times: np.ndarray, moment: int, *, after: bool = False) -> int:
    """How many of ascending int64 times lie before a moment, or with ``after`` not after it.

    The moment may be any integer, also one that no row's time can be.
    """
    if not _MIN <= moment <= _MAX:
        return len(times) if moment > _MAX else 0
    return int(np.searchsorted(times, moment, side="right" if after else "left"))


def _places(
    window: np.ndarray, times: np.ndarray, by: int, side: Side, search: Search, out: np.ndarray
) -> None:
    """Write places of ``times + by`` in the window's times, exact beyond the ends of int64, too."""
    low, high = place(times, _MIN - by), place(times, _MAX - by, after=True)
    out[:low], out[high:] = 0, len(window)
    done = 0
    for at in range(low, high, _BLOCK):
        block = out[at : min(at + _BLOCK, high)]
        np.add(
            search(window[done:], _moved(times[at : at + len(block)], by), side), done, out=block
        )
        done = int(block[-1])


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


def arrival_numbers(
    left: np.ndarray, right: np.ndarray, search: Search = np.searchsorted
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from 0 of the rows of two sides, in (time, left first, row) order.

    Parameters
    ----------
    left, right : ndarray of int64
        Times, ascending.
    search : callable
        Finds places of ascending times.
    """
    before_left = search(right, left, "left").astype(np.int64, copy=False)
    before_right = search(left, right, "right").astype(np.int64, copy=False)
    return before_left + np.arange(len(left)), before_right + np.arange(len(right))
