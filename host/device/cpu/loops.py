"""The compiled loops of the band kernel.

A task is walked in blocks of stream tuples, and each block in tiles of window positions, so that a
tile of keys stays in the first-level cache while the block's tuples pass over it. Room for results
runs out in the middle of a tile at most: the tile is rolled back and tried again at half its
width, down to one position, which fits because a block has no more tuples than the result has room.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.host.device.cpu.vector import (
    GRANULE,
    lowest_bit,
    match_all,
    match_each,
    popcount,
    row_of,
)

#: Entries that ``emit`` may write past the last pair; result arrays are this much longer.
SLACK = GRANULE

#: Layout of the ``state`` array (int64) that a run fills in.
COUNT, EVALUATIONS, PAUSED, I0, I1, POSITION = range(6)
STATE_FIELDS = 6

_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE = np.uint64(1)


@njit(nogil=True)
def inside(mask, position, start, end):
    """The granule mask without the positions outside ``[start, end)``."""
    if position < start:
        mask &= _ALL << np.uint64(start - position)
    if position + GRANULE > end:
        mask &= _ALL >> np.uint64(position + GRANULE - end)
    return mask


@njit(nogil=True)
def emit(mask, i, position, room, out_i, out_j, count):
    """Append the pairs of a granule; the new count, or -1 if they do not fit."""
    total = count + popcount(mask)
    if total > room:
        return -1
    # Four entries a turn, whether or not there are as many: a loop that ends by the number of
    # bits would be mispredicted each time. What is written too much lies in the slack.
    while True:
        for k in range(4):
            out_i[count + k] = i
            out_j[count + k] = position + lowest_bit(mask)
            mask &= mask - _ONE
        count += 4
        if count >= total:
            return total


@njit(nogil=True)
def first_ending_after(end, low, high, position):
    """First index in ``[low, high)`` whose range ends after ``position``; ``high`` if none."""
    while low < high and end[low] <= position:
        low += 1
    return low


@njit(nogil=True)
def scan_all(window, low, span, i, start, end, room, out_i, out_j, count):
    """Pairs of one tuple over ``[start, end)`` where all tests hold."""
    lo, sp = row_of(low, i), row_of(span, i)
    position = start & ~(GRANULE - 1)
    while position < end:
        mask = inside(match_all(window, position, lo, sp), position, start, end)
        if mask:
            count = emit(mask, i, position, room, out_i, out_j, count)
            if count < 0:
                return count
        position += GRANULE
    return count


@njit(nogil=True)
def scan_cubes(window, low, span, cubes, i, start, end, room, out_i, out_j, count):
    """Pairs of one tuple over ``[start, end)`` where all tests of some cube hold."""
    lo, sp = row_of(low, i), row_of(span, i)
    position = start & ~(GRANULE - 1)
    while position < end:
        each = match_each(window, position, lo, sp)
        mask = np.uint64(0)
        for cube in cubes:
            term = _ALL
            for d in range(len(each)):
                if (cube >> d) & 1:
                    term &= each[d]
            mask |= term
        mask = inside(mask, position, start, end)
        if mask:
            count = emit(mask, i, position, room, out_i, out_j, count)
            if count < 0:
                return count
        position += GRANULE
    return count


@njit(nogil=True, cache=True)
def run_band(window, low, span, cubes, start, end, room, block, tile, out_i, out_j, state):
    """Run a band task.

    Parameters
    ----------
    window : tuple of D arrays of the key dtype, longer than every range by a granule
    low, span : tuple of D arrays of the key dtype, shape (n,)
        Test d of tuple i is ``low[d][i] <= key <= low[d][i] + span[d][i]``, without wrap.
    cubes : ndarray of int64
        The program's cubes; empty for the AND of all tests.
    start, end : ndarray of int64, shape (n,)
    room : int
        Most pairs to write.
    block, tile : int
        Stream tuples and window positions per tile; ``block <= room``.
    out_i, out_j : ndarray of uint32, shape (room + SLACK,)
    state : ndarray of int64, shape (STATE_FIELDS,)
        Filled in: pairs, evaluations, whether the task paused, and the pause.
    """
    count, evaluations = 0, 0
    rows = len(start)
    for i0 in range(0, rows, block):
        i1 = min(rows, i0 + block)
        first, position, stop, width = i0, start[i0], end[i1 - 1], tile
        while position < stop:
            first = first_ending_after(end, first, i1, position)
            position = max(position, start[first])
            edge = min(stop, position + width)
            before, tested = count, 0
            for i in range(first, i1):
                if start[i] >= edge:
                    break
                a, b = max(start[i], position), min(end[i], edge)
                if a >= b:
                    continue
                tested += b - a
                if len(cubes) == 0:
                    count = scan_all(window, low, span, i, a, b, room, out_i, out_j, count)
                else:
                    count = scan_cubes(window, low, span, cubes, i, a, b, room, out_i, out_j, count)
                if count < 0:
                    break
            if count >= 0:
                evaluations += tested
                position, width = edge, tile
                continue
            count = before
            width = (edge - position) // 2
            if width == 0:
                state[PAUSED], state[I0], state[I1], state[POSITION] = 1, i0, i1, position
                state[COUNT], state[EVALUATIONS] = count, evaluations
                return
    state[COUNT], state[EVALUATIONS], state[PAUSED] = count, evaluations, 0
