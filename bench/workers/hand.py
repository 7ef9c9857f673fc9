"""Groups as one would write them by hand for one query: open addressing, one window, no epochs.

The table's size is known beforehand and never changes; a key and its value lie together, so that a
row touches one cache line; values are above zero, so that new memory is an empty table.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from penstock.errors import PenstockError

#: Knuth's multiplier, whose upper bits are the place of a key.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
#: Of a resource in the workload CM.
_PARTS = 1024


@njit(nogil=True, cache=True)
def count_views(table, shift, ad, t, kind, begin, end):
    """Count views of each ad in ``[begin, end)``; rows that were read, fewer after one outside.

    Parameters
    ----------
    table : int64 array (capacity, 2)
        Key and count; the capacity is a power of two.
    shift : int
        64 less the capacity's logarithm.
    ad, t, kind : arrays
        Of a batch; ``t`` in the unit of ``begin`` and ``end``.
    """
    last = len(table) - 1
    for row in range(len(ad)):
        if kind[row] != 0:
            continue
        if t[row] < begin or t[row] >= end:
            return row
        key = ad[row]
        place = np.int64((np.uint64(key) * MULTIPLIER) >> shift)
        while table[place, 1] != 0 and table[place, 0] != key:
            place = (place + 1) & last
        table[place, 0] = key
        table[place, 1] += 1
    return len(ad)


@njit(nogil=True, cache=True)
def highest_prices(table, shift, auction, t, price, begin, end):
    """Keep the highest price of each auction in ``[begin, end)``; as :func:`count_views`."""
    last = len(table) - 1
    for row in range(len(auction)):
        if t[row] < begin or t[row] >= end:
            return row
        key = auction[row]
        place = np.int64((np.uint64(key) * MULTIPLIER) >> shift)
        while table[place, 1] != 0 and table[place, 0] != key:
            place = (place + 1) & last
        table[place, 0] = key
        table[place, 1] = max(table[place, 1], price[row])
    return len(auction)


@njit(nogil=True, cache=True)
def sum_parts(table, shift, job, t, cpu, begin, end):
    """Sum ``cpu`` in parts of 1024, which are whole, and count rows of each job in
    ``[begin, end)``; as :func:`count_views`, with a third column for counts."""
    last = len(table) - 1
    for row in range(len(job)):
        if t[row] < begin or t[row] >= end:
            return row
        key = job[row]
        place = np.int64((np.uint64(key) * MULTIPLIER) >> shift)
        while table[place, 2] != 0 and table[place, 0] != key:
            place = (place + 1) & last
        table[place, 0] = key
        table[place, 1] += np.int64(cpu[row] * _PARTS)
        table[place, 2] += 1
    return len(job)


@njit(nogil=True, cache=True)
def count_keys(table, shift, key, begin, end):
    """Count rows of each key; as :func:`count_views`, without windows."""
    last = len(table) - 1
    for row in range(len(key)):
        own = key[row]
        place = np.int64((np.uint64(own) * MULTIPLIER) >> shift)
        while table[place, 1] != 0 and table[place, 0] != own:
            place = (place + 1) & last
        table[place, 0] = own
        table[place, 1] += 1
    return len(key)


@njit(nogil=True, cache=True)
def _columns(table):
    """Columns of the places that are taken: those whose last column is not zero."""
    width, found = table.shape[1], 0
    for place in range(len(table)):
        found += table[place, width - 1] != 0
    columns = np.empty((width, found), np.int64)
    found = 0
    for place in range(len(table)):
        if table[place, width - 1] != 0:
            for column in range(width):
                columns[column, found] = table[place, column]
            found += 1
    return columns


def fold(
    loop, batches: list[tuple[npt.NDArray, ...]], groups: int, begin: int, end: int
) -> npt.NDArray[np.int64]:
    """The table of a window.

    Parameters
    ----------
    loop : callable
        :func:`count_views`, :func:`highest_prices` or :func:`sum_parts`.
    batches : list of tuple of arrays
        The columns that the loop takes.
    groups : int
        How many there are at most; the table has at least twice as many places.
    begin, end : int
        Of the window.

    Raises
    ------
    PenstockError
        A row is not in the window.
    """
    bits = max(4, int(2 * groups - 1).bit_length())
    table = np.zeros((1 << bits, 3 if loop is sum_parts else 2), np.int64)
    for columns in batches:
        if loop(table, np.uint64(64 - bits), *columns, begin, end) < len(columns[0]):
            raise PenstockError("a row is outside of the loop's one window; give it fewer rows")
    return table


def give(table: npt.NDArray[np.int64], begin: int) -> pa.Table:
    """All groups of the table of a window that begins then."""
    keys, values, *counts = _columns(table)
    if counts:
        values = values / _PARTS / counts[0]
    return pa.table({"key": keys, "w": np.full(len(keys), begin), "value": values})
