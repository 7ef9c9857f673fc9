"""The order of keys inside cells: rows of a cell by the hash of their key, then by position."""

from __future__ import annotations

import numpy as np

from penstock.kept_code import kept

#: Rows that are sorted by insertion.
_FEW = 24
#: Bits of a hash that are sorted by at a time, and their values.
_DIGIT = 8
_VALUES = 1 << _DIGIT
#: Stretches that wait: fewer than all values of each digit.
_WAITING = _VALUES * (64 // _DIGIT)


def highest_digit(hash_bits: int) -> int:
    """Lowest bit of the highest digit in which hashes of one part of a hash may differ."""
    return max(64 - hash_bits - _DIGIT, 0)


@kept()
def sort_keys(hashes, starts, low, high, order, sorted_hashes, digit):
    """Sort the rows of the cells ``[low, high)`` by hash; rows of one hash stay in their order.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (n,)
        By row.
    starts, order
        As :func:`.cells.sort_by_cell` writes them.
    sorted_hashes : ndarray of uint64, shape (n,)
        Gets the hash at each place.
    digit : int
        From :func:`highest_digit`.
    """
    waiting = np.empty((_WAITING, 3), np.int64)
    counts = np.empty(_VALUES + 1, np.int64)
    spare_hashes, spare_order = np.empty(0, np.uint64), np.empty(0, np.uint32)
    for cell in range(low, high):
        begin, end = np.int64(starts[cell]), np.int64(starts[cell + 1])
        if begin == end:
            continue
        is_mixed = False
        first = hashes[order[begin]]
        for k in range(begin, end):
            current = hashes[order[k]]
            sorted_hashes[k] = current
            is_mixed |= current != first
        if not is_mixed:
            continue
        if end - begin <= _FEW:
            _insert(sorted_hashes, order, begin, end)
            continue
        if end - begin > len(spare_order):
            size = 2 * (end - begin)
            spare_hashes, spare_order = np.empty(size, np.uint64), np.empty(size, np.uint32)
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = begin, end, digit
        left = 1
        while left:
            left -= 1
            a, b, bit = waiting[left]
            if b - a <= _FEW:
                _insert(sorted_hashes, order, a, b)
                continue
            _scatter(sorted_hashes, order, a, b, bit, counts, spare_hashes, spare_order)
            if bit == 0:
                continue
            at = np.int64(0)
            for value in range(_VALUES):
                until = counts[value]
                if until - at > 1 and _is_mixed(sorted_hashes, a + at, a + until):
                    waiting[left, 0], waiting[left, 1] = a + at, a + until
                    waiting[left, 2] = max(bit - _DIGIT, 0)
                    left += 1
                at = until


@kept()
def _scatter(hashes, order, a, b, bit, counts, spare_hashes, spare_order):
    """Sort places by the digit from a bit on; ``counts`` gets the end of each of its values."""
    mask = np.uint64(_VALUES - 1)
    counts[:] = 0
    for k in range(a, b):
        counts[((hashes[k] >> np.uint64(bit)) & mask) + np.uint64(1)] += 1
        spare_hashes[k - a], spare_order[k - a] = hashes[k], order[k]
    for value in range(1, _VALUES):
        counts[value] += counts[value - 1]
    for k in range(b - a):
        value = (spare_hashes[k] >> np.uint64(bit)) & mask
        at = a + counts[value]
        hashes[at], order[at] = spare_hashes[k], spare_order[k]
        counts[value] += 1


@kept()
def _insert(hashes, order, a, b):
    for k in range(a + 1, b):
        current, row = hashes[k], order[k]
        at = k
        while at > a and hashes[at - 1] > current:
            hashes[at], order[at] = hashes[at - 1], order[at - 1]
            at -= 1
        hashes[at], order[at] = current, row


@kept()
def _is_mixed(hashes, a, b):
    k = a + 1
    while k < b and hashes[k] == hashes[a]:
        k += 1
    return k < b
