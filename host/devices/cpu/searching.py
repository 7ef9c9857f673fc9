"""Searches of the band kernel: short ranges of places, tuple by tuple."""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.kept_code import kept

from ...device import intrinsics, zones
from ...device import search as device_search
from ...device.base import Pause, Result
from ...device.intrinsics import lowest_bit
from ...device.search import (
    HIGH,
    LOW,
    ORDER,
    ROW,
    SIZES,
    START,
    STOP,
    WHOLE,
    RangeWalk,
    SearchTask,
    next_ranges,
)
from . import fold_loops, loops, vector
from .fold_loops import EXISTS, fold
from .kernel import ResultMemory
from .loops import granule
from .vector import GRANULE, fetch, popcount, row_of

# Fields of a search's outcome: pairs, tests, and whether, where and at which tuple it paused.
COUNT, EVALUATIONS, PAUSED, TUPLE, PLACE, ROOM = range(6)

#: Ranges between the one whose rows are asked for and the one whose rows are tested.
AHEAD = 8

_ONE = np.uint64(1)


class FoundPairs:
    """Pairs of a search.

    Parameters
    ----------
    task : SearchTask
    memory : ResultMemory
    """

    def __init__(self, task: SearchTask, memory: ResultMemory) -> None:
        self.outcome = np.zeros(ROOM + 1, np.int64)
        self.outcome[ROOM] = task.room
        block = memory.lend(2 * task.room)
        self.i, self.j = block[: task.room], block[task.room : 2 * task.room]

    @property
    def state(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The arguments ``outcome, out_i, out_j`` of a loop."""
        return self.outcome, self.i, self.j

    def result(self) -> Result:
        """The result; a small one is copied, which frees the memory."""
        count, evaluations, is_paused, i, place, room = self.outcome.tolist()
        pairs = self.i[:count], self.j[:count]
        if count < room // 2:
            pairs = pairs[0].copy(), pairs[1].copy()
        pause = Pause(i, i + 1, place) if is_paused else None
        return Result(*pairs, pause, {"evaluations": evaluations})


def walk_of(task: SearchTask) -> RangeWalk:
    """The ranges of places of a search."""
    return RangeWalk(task.ordered, task.boxes, task.start, task.end, task.floor)


@njit(nogil=True)
def in_range(mask, place, order, by, low, high):
    """The granule mask without the places whose positions lie outside ``[low, high)``.

    ``by`` is the first position of the slab, from which ``order`` counts.
    """
    bits = mask
    while bits:
        bit = lowest_bit(bits)
        bits &= bits - _ONE
        position = by + np.int64(order[place + bit])
        if not low <= position < high:
            mask ^= _ONE << np.uint64(bit)
    return mask


@njit(nogil=True)
def nearest_position(mask, values, at, place, order, base, i, count, value, extra):
    """Fold by NEAREST for places out of order: of equal values the lowest position counts."""
    count[i] += popcount(mask)
    if values is not None:
        while mask:
            bit = lowest_bit(mask)
            mask &= mask - _ONE
            one, position = np.int64(values[at + bit]), base + np.int64(order[place + bit])
            if extra[i] < 0 or one < value[i] or (one == value[i] and position < extra[i]):
                value[i], extra[i] = one, position


@njit(nogil=True)
def emit_positions(mask, i, place, order, base, outcome, out_i, out_j):
    """Append the pairs of a granule, by position; False if they do not fit."""
    count = outcome[COUNT]
    if count + popcount(mask) > outcome[ROOM]:
        outcome[PAUSED], outcome[TUPLE], outcome[PLACE] = 1, i, place
        return False
    while mask:
        out_i[count] = i
        out_j[count] = base + order[place + lowest_bit(mask)]
        mask &= mask - _ONE
        count += 1
    outcome[COUNT] = count
    return True


@kept(device_search, intrinsics, loops, vector, zones)
def search_pairs(window, cubes, low, span, walk, outcome, out_i, out_j):
    """Append the pairs of all ranges, as long as there is room.

    Parameters
    ----------
    window : tuple of D arrays of the key dtype, with a granule more than places
    cubes, low, span
        As for :func:`.loops.run_pairs`.
    walk : tuple
        :attr:`~penstock.host.device.search.RangeWalk.state`.
    outcome : ndarray of int64
        COUNT to ROOM.
    """
    row, begin, end, whole = walk[ROW], walk[LOW], walk[HIGH], walk[WHOLE]
    start, stop, order = walk[START], walk[STOP], walk[ORDER]
    first, rows = walk[SIZES][0], walk[SIZES][1]
    while True:
        count = next_ranges(*walk)
        if not count:
            return
        for k in range(count):
            if k + AHEAD < count:
                fetch(window, begin[k + AHEAD])
            i, place = np.int64(row[k]), begin[k]
            lo, sp = row_of(low, i), row_of(span, i)
            while place < end[k]:
                mask = granule(window, cubes, place, lo, sp, place, end[k])
                if mask:  # few have matches, and a division is slow
                    base = place // rows * rows
                    if not whole[k]:
                        mask = in_range(mask, place, order, first + base, start[i], stop[i])
                    if not emit_positions(mask, i, place, order, base, outcome, out_i, out_j):
                        outcome[EVALUATIONS] += place - begin[k]
                        return
                place += GRANULE
            outcome[EVALUATIONS] += end[k] - begin[k]


@kept(device_search, fold_loops, intrinsics, loops, vector, zones)
def search_folds(window, payload, cubes, low, span, walk, rule, matches, value, extra):
    """Fold the matches of all ranges; arguments as for :func:`search_pairs` and ``run_band``."""
    row, begin, end, whole = walk[ROW], walk[LOW], walk[HIGH], walk[WHOLE]
    start, stop, order = walk[START], walk[STOP], walk[ORDER]
    first, rows = walk[SIZES][0], walk[SIZES][1]
    evaluations = 0
    while True:
        count = next_ranges(*walk)
        if not count:
            return evaluations
        for k in range(count):
            if k + AHEAD < count:
                fetch(window, begin[k + AHEAD])
            i, place = np.int64(row[k]), begin[k]
            lo, sp = row_of(low, i), row_of(span, i)
            evaluations += end[k] - place
            while place < end[k] and not (rule == EXISTS and matches[i] > 0):
                mask = granule(window, cubes, place, lo, sp, place, end[k])
                if mask and not whole[k]:
                    by = first + place // rows * rows
                    mask = in_range(mask, place, order, by, start[i], stop[i])
                if mask:
                    fold(mask, payload, place, place, i, rule, matches, value, extra)
                place += GRANULE
