"""Folds of the matches of a stream tuple, and the band loops that fold.

A task is walked as for pairs, but folds need no room, so every tile is done once. Window positions
ascend for each tuple.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.kept_code import kept

from ...device import intrinsics
from ...device.intrinsics import lowest_bit
from ...keys import narrow as narrow_codes
from . import loops, masks, vector
from .loops import (
    DENSE,
    EDGE,
    FIRST,
    I0,
    LAST,
    POSITION,
    granule,
    next_tile,
    rules_out,
)  # fmt: skip
from .masks import STEP, WORDS, any_passes, is_match, passing, which_pass
from .vector import (
    CHUNK,
    GRANULE,
    any_match,
    masked_max,
    masked_min,
    masked_sum,
    match_all,
    popcount,
    row_of,
)

#: Rules of a fold: those of ``Mode``, and sums whose total may need more than 64 bits.
COUNT, EXISTS, SUM, WIDE_SUM, MIN, MAX, NEAREST = range(7)

_ONE = np.uint64(1)
_LOW_HALF = (1 << 32) - 1
_GREATEST = np.int64((1 << 63) - 1)


@njit(nogil=True)
def fold(mask, values, at, position, i, rule, count, value, extra):
    """Fold the matches of one granule into tuple ``i``.

    Parameters
    ----------
    mask : uint64
        Matches, not 0.
    values : ndarray of int32 or int64, or None
        Value of window position ``position + k`` at ``at + k``; None if the rule needs none.
    rule : int
        COUNT to NEAREST.
    count, value, extra : ndarray of int64, shape (n,)
        ``count`` has the matches so far. ``value`` has, for SUM, MIN and MAX, the fold so far; for
        WIDE_SUM the sum of the low halves, and ``extra`` that of the high halves; for NEAREST the
        least value, and ``extra`` its position. MIN and NEAREST begin at the greatest int64, MAX at
        the least.
    """
    if values is not None:
        if rule == SUM:
            value[i] += masked_sum(values, at, mask)
        elif rule == MIN:
            value[i] = min(value[i], masked_min(values, at, mask))
        elif rule == MAX:
            value[i] = max(value[i], masked_max(values, at, mask))
        elif rule == NEAREST:
            least = masked_min(values, at, mask)
            if least < value[i] or count[i] == 0:
                bits = mask
                while values[at + lowest_bit(bits)] != least:
                    bits &= bits - _ONE
                value[i] = least
                extra[i] = position + lowest_bit(bits)
        elif rule == WIDE_SUM:
            bits = mask
            while bits:
                one = np.int64(values[at + lowest_bit(bits)])
                value[i] += one & _LOW_HALF
                extra[i] += one >> 32
                bits &= bits - _ONE
    count[i] += popcount(mask)


@njit(nogil=True)
def add_floats(mask, values, at, position, i, rule, count, value, extra):
    """Add matches' float64 ``values``, in order of positions, to ``value``; see :func:`fold`."""
    count[i] += popcount(mask)
    while mask:
        value[i] += values[at + lowest_bit(mask)]
        mask &= mask - _ONE


@njit(nogil=True)
def order_key(x):
    """int64 key of a float64 in the order of Spark, see ``folding.ordered``."""
    bits = np.float64(x + 0.0).view(np.int64)
    key = bits ^ ((bits >> 63) & _GREATEST)
    return _GREATEST if x != x else key


@njit(nogil=True)
def granules(window, payload, cubes, lo, sp, i, start, end, rule, count, value, extra):
    """Fold the matches of one tuple over ``[start, end)``, granule by granule."""
    position = start & ~(GRANULE - 1)
    while position < end:
        mask = granule(window, cubes, position, lo, sp, start, end)
        if mask:
            fold(mask, payload, position, position, i, rule, count, value, extra)
            if rule == EXISTS:
                return
        position += GRANULE


@njit(nogil=True)
def two_tuples(window, payload, low, span, i, start, end, dense, rule, count, value, extra):
    """Fold whole chunks into tuples i and i + 1; return the end position. See :func:`granules`.

    EXISTS ends early, once either tuple has a match.
    """
    lo, sp = (row_of(low, i), row_of(low, i + 1)), (row_of(span, i), row_of(span, i + 1))
    for chunk in range(start, end, CHUNK):
        if not dense and not any_match(window, chunk, lo, sp):
            continue
        for position in range(chunk, chunk + CHUNK, GRANULE):
            first = match_all(window, position, lo[0], sp[0])
            second = match_all(window, position, lo[1], sp[1])
            if first:
                fold(first, payload, position, position, i, rule, count, value, extra)
            if second:
                fold(second, payload, position, position, i + 1, rule, count, value, extra)
        if rule == EXISTS and count[i] + count[i + 1] > 0:
            return chunk + CHUNK
    return end


@njit(nogil=True)
def fold_tile(
    window, payload, low, span, narrow, start, end, walk, rule, count, value, extra
):  # fmt: skip
    """Fold the matches of the walk's tile, by masks of the block's tuples; their number."""
    total, first, last, edge = 0, walk[I0], walk[LAST], walk[EDGE]
    codes, block_masks, _, _ = narrow
    for position in range(walk[POSITION], edge, STEP):
        if not any_passes(block_masks, codes, position):
            continue
        words = which_pass(block_masks, codes, position)
        while words:
            bit = lowest_bit(words)
            words &= words - _ONE
            j, word = position + bit // WORDS, bit % WORDS
            bits = passing(block_masks, codes, j, word)
            while bits:
                i = first + 64 * word + lowest_bit(bits)
                bits &= bits - _ONE
                if is_match(window, low, span, start, end, last, edge, i, j):
                    fold(_ONE, payload, j, j, i, rule, count, value, extra)
                    total += 1
    return total


@njit(nogil=True)
def unknown(walk, rule, start, count):
    """Number of the tile's tuples whose fold may still change; 0 if masks would not pay yet.

    Where tuples match soon, EXISTS is done before any masks are made.
    """
    tuples = walk[LAST] - walk[FIRST]
    if rule == EXISTS:
        left = 0
        for i in range(walk[FIRST], walk[LAST]):
            left += np.int64(count[i] == 0)
        is_soon = walk[POSITION] == start[walk[I0]] or 2 * left < tuples
        return 0 if is_soon else left
    return tuples


@kept(intrinsics, loops, masks, narrow_codes, vector)
def run_band(
    window, payload, cubes, low, span, narrow, start, end, walk, rule, count, value, extra
):  # fmt: skip
    """Fold a band task.

    Parameters
    ----------
    window : tuple of D arrays of the key dtype, longer than every range by a granule
    payload : ndarray of int32 or int64, as long, or None
    cubes, low, span, narrow, start, end, walk
        As for :func:`.loops.run_pairs`.
    rule, count, value, extra
        As for :func:`fold`.
    """
    dense = len(start) < 0  # False, but no literal, see run_pairs
    while next_tile(walk, start, end, 0):
        first, last, position, edge = walk[FIRST], walk[LAST], walk[POSITION], walk[EDGE]
        total, pairs = 0, (last - first) * (edge - position)
        if narrow is not None:
            tuples = unknown(walk, rule, start, count)
            if rules_out(narrow, low, span, end, walk, tuples):
                total = fold_tile(
                    window, payload, low, span, narrow, start, end, walk, rule, count, value, extra
                )
                dense = total * DENSE > pairs
                continue
        i = first
        while i < last and start[i] < edge:
            b = min(end[i], edge)
            known = count[i]
            both, middle, tail = 1, b, b
            if cubes is None and i + 1 < last:
                # Ranges never step back, so two neighbours share their middle.
                a2 = max(start[i + 1], position)
                middle = (a2 + GRANULE - 1) & ~(GRANULE - 1)
                tail = middle + (b - middle) // CHUNK * CHUNK
                wanted = rule != EXISTS or count[i] + count[i + 1] == 0
                if tail > middle and wanted:
                    both = 2
                    known += count[i + 1]
                    tail = two_tuples(
                        window, payload, low, span, i, middle, tail, dense, rule,
                        count, value, extra,
                    )  # fmt: skip
            # One call in a loop: several would be inlined, and compiled, several times.
            for part in range(both * both):
                one = i + (part >> 1)
                if rule == EXISTS and count[one] > 0:
                    continue
                x, y = max(start[one], position), min(end[one], edge)
                if both == 2 and part & 1:
                    x = tail
                elif both == 2:
                    y = middle
                granules(
                    window, payload, cubes, row_of(low, one), row_of(span, one), one, x, y,
                    rule, count, value, extra,
                )  # fmt: skip
            total += count[i] - known + (count[i + 1] if both == 2 else 0)
            i += both
        dense = total * DENSE > pairs
