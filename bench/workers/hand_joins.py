"""Joins as one would write them by hand for one query: open addressing, and chains of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from bench.workers.hand import MULTIPLIER

Columns = Sequence[npt.NDArray[np.int64]]

#: Of the query NB8, in ms.
_WINDOW = 43_200_000
_NONE = -1


def auctions(left: Columns, right: Columns) -> pa.Table:
    """Auctions with the seller of the same number and window.

    Parameters
    ----------
    left : seller, time and number of each auction
    right : number and time of each seller
        A seller has one row.
    """
    place = np.full(1 << _bits(len(right[0])), _NONE, np.int64)
    _insert(place, right[0])
    rows = _probe(place, left[0], left[1] // _WINDOW, right[0], right[1] // _WINDOW)
    windows = left[1][rows] // _WINDOW * _WINDOW
    return pa.table([left[0][rows], left[2][rows], windows], names=["seller", "auction", "w"])


def bids(left: Columns, right: Columns, gap: int) -> pa.Table:
    """Bids with the rows of their seller in the same session.

    Rows are taken by time. Those of a seller's open session are a chain of each side; it closes
    with the first row that is further off than the gap, and in the end.

    Parameters
    ----------
    left : seller, time, auction and price of each bid
    right : number and time of each seller
    gap : int
        In ms.
    """
    bits = _bits(len(right[0]))
    pairs = _sessions(bits, left[0], left[1], right[0], right[1], gap)
    of_left, of_right = pairs
    columns = [right[0][of_right], *(left[k][of_left] for k in (2, 3, 1)), right[1][of_right]]
    return pa.table(columns, names=["seller", "auction", "price", "t", "since"])


def _bits(keys: int) -> int:
    return max(4, int(2 * keys - 1).bit_length())


@njit(nogil=True, cache=True)
def _place(keys, table, key):
    """Where a key's entry is in a table of rows, or would be."""
    last = len(table) - 1
    place = np.int64((np.uint64(key) * MULTIPLIER) >> np.uint64(32)) & last
    while table[place] != _NONE and keys[table[place]] != key:
        place = (place + 1) & last
    return place


@njit(nogil=True, cache=True)
def _insert(table, keys):
    for row in range(len(keys)):
        table[_place(keys, table, keys[row])] = row


@njit(nogil=True, cache=True)
def _probe(table, keys, windows, others, their_windows):
    """Rows whose key is there, in the same window."""
    found, count = np.empty(len(keys), np.int64), 0
    for row in range(len(keys)):
        other = table[_place(others, table, keys[row])]
        if other != _NONE and their_windows[other] == windows[row]:
            found[count] = row
            count += 1
    return found[:count]


@njit(nogil=True, cache=True)
def _sessions(bits, left, left_times, right, right_times, gap):
    """Pairs of rows of one key and session; both sides are in the order of time.

    An entry of the table has the key plus one, the time of its last row, and the last row of each
    side, from which a chain leads to those before.
    """
    last = (1 << bits) - 1
    table = np.zeros((1 << bits, 4), np.int64)
    before = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
    found = np.empty((2, max(16, len(left))), np.int64)
    count = a = b = 0
    while a < len(left) or b < len(right):
        is_left = b == len(right) or (a < len(left) and left_times[a] < right_times[b])
        key, time = (left[a], left_times[a]) if is_left else (right[b], right_times[b])
        place = np.int64((np.uint64(key) * MULTIPLIER) >> np.uint64(32)) & last
        while table[place, 0] != 0 and table[place, 0] != key + 1:
            place = (place + 1) & last
        entry = table[place]
        if entry[0] == 0 or time - entry[1] > gap:
            if entry[0] != 0:
                found, count = _emit(entry, before, found, count)
            entry[0], entry[2], entry[3] = key + 1, _NONE, _NONE
        entry[1] = time
        if is_left:
            before[0][a], entry[2] = entry[2], a
            a += 1
        else:
            before[1][b], entry[3] = entry[3], b
            b += 1
    for place in range(len(table)):
        if table[place, 0] != 0:
            found, count = _emit(table[place], before, found, count)
    return found[0, :count], found[1, :count]


@njit(nogil=True, cache=True)
def _emit(entry, before, found, count):
    """Add the pairs of a session."""
    row = entry[2]
    while row != _NONE:
        other = entry[3]
        while other != _NONE:
            if count == found.shape[1]:
                larger = np.empty((2, 2 * count), np.int64)
                larger[:, :count] = found
                found = larger
            found[0, count], found[1, count] = row, other
            count += 1
            other = before[1][other]
        row = before[0][row]
    return found, count
