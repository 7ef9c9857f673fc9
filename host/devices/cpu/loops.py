"""The walk through a task, and the compiled loops of the band kernel.

A task is walked in blocks of stream tuples, and each block in tiles of window positions, so that a
tile of keys stays in the first-level cache while the block's tuples pass over it. Room for results
runs out inside a tile at most: the tile is rolled back, and the task pauses there if the result is
more than half full. Otherwise the tile is tried again at half its width, down to one position; if
even the task's first position does not fit, the block is cut to as many tuples as the result has
room for, so that every task makes progress.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.kept_code import kept

from ...device import intrinsics
from ...device.intrinsics import lowest_bit
from ...keys import narrow as narrow_codes
from . import masks, vector
from .masks import (
    AHEAD,
    MASKED,
    PASSING,
    SAMPLE_ROWS,
    STEP,
    TILES,
    TUPLES,
    WIDTH,
    WORDS,
    any_passes,
    is_match,
    make_masks,
    passing,
    which_pass,
)  # fmt: skip
from .vector import CHUNK, GRANULE, any_match, match_all, match_each, popcount, row_of

#: Entries that ``emit`` may write past the last pair; result arrays are this much longer.
SLACK = GRANULE

# Fields of a walk, an int64 array: the report of a finished or paused task, ...
COUNT, EVALUATIONS, PAUSED, I0, I1, POSITION = range(6)
# ... the tuples [FIRST, LAST) and the end of the current tile, and the sizes of the walk.
FIRST, LAST, EDGE, BLOCK, TILE, ROOM = range(6, 12)
WALK_FIELDS = 12

#: Evaluations per match below which chunks are not tested as a whole: a third of the chunks would
#: have a match, and the test costs two thirds of its savings.
DENSE = 1024

_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE = np.uint64(1)


def new_walk(block: int, tile: int, room: int = 0) -> np.ndarray:
    """A walk before its first tile.

    Parameters
    ----------
    block, tile : int
        Most stream tuples and window positions of a tile, the latter at least GRANULE.
    room : int
        Most pairs to write; loops that fold ignore it.
    """
    walk = np.zeros(WALK_FIELDS, np.int64)
    walk[BLOCK], walk[TILE], walk[ROOM] = block, tile, room
    return walk


@kept(intrinsics, vector)
def next_tile(walk, start, end, count):
    """Go on to the next tile.

    Parameters
    ----------
    walk : ndarray of int64, shape (WALK_FIELDS,)
    start, end : ndarray of int64, shape (n,)
    count : int
        Pairs written after the last tile, or -1 if they did not fit. 0 at first.

    Returns
    -------
    bool
        False if the task is complete or paused.
    """
    rows = len(start)
    if count < 0:
        width = (walk[EDGE] - walk[POSITION]) // 2
        if 2 * walk[COUNT] > walk[ROOM] or (width == 0 and walk[EVALUATIONS] > 0):
            walk[PAUSED] = 1
            return False
        if width == 0:
            walk[I1] = min(walk[I1], walk[FIRST] + walk[ROOM])
        walk[EDGE] = walk[POSITION] + max(width, 1)
    else:
        walk[COUNT] = count
        for i in range(walk[FIRST], walk[LAST]):
            tested = min(end[i], walk[EDGE]) - max(start[i], walk[POSITION])
            walk[EVALUATIONS] += max(tested, 0)
        walk[POSITION] = walk[EDGE]
        while walk[I1] == 0 or walk[POSITION] >= end[walk[I1] - 1]:
            walk[I0] = walk[I1]
            if walk[I0] == rows:
                return False
            walk[I1] = min(rows, walk[I0] + walk[BLOCK])
            walk[FIRST] = walk[I0]
            walk[POSITION] = start[walk[I0]]
        while end[walk[FIRST]] <= walk[POSITION]:
            walk[FIRST] += 1
        walk[POSITION] = max(walk[POSITION], start[walk[FIRST]])
        # Tiles end where granules do, so that no granule is tested for two tiles.
        walk[EDGE] = min(end[walk[I1] - 1], (walk[POSITION] + walk[TILE]) & ~(GRANULE - 1))
    walk[LAST] = walk[FIRST]
    while walk[LAST] < walk[I1] and start[walk[LAST]] < walk[EDGE]:
        walk[LAST] += 1
    return True


@njit(nogil=True)
def inside(mask, position, start, end):
    """The granule mask without the positions outside ``[start, end)``."""
    if position < start:
        mask &= _ALL << np.uint64(start - position)
    if position + GRANULE > end:
        mask &= _ALL >> np.uint64(position + GRANULE - end)
    return mask


@njit(nogil=True)
def any_cube(each, cubes):
    """Mask of the granule's positions where all tests of some cube hold."""
    mask = np.uint64(0)
    for k in range(len(cubes)):
        cube, term = cubes[k], _ALL
        for d in range(len(each)):
            if (cube >> d) & 1:
                term &= each[d]
        mask |= term
    return mask


@njit(nogil=True)
def emit(mask, i, position, room, out_i, out_j, count):
    """Append the pairs of a granule; the new count, or -1 if they do not fit."""
    total = count + popcount(mask)
    if total > room:
        return -1
    # Always four entries a turn: a loop whose end depends on the number of bits would be
    # mispredicted each time. Entries beyond the last pair lie in the slack.
    while True:
        for k in range(4):
            out_i[count + k] = i
            out_j[count + k] = position + lowest_bit(mask)
            mask &= mask - _ONE
        count += 4
        if count >= total:
            return total


@njit(nogil=True)
def granule(window, cubes, position, lo, sp, start, end):
    """Mask of the matches of one tuple in the granule at ``position``, within ``[start, end)``.

    Parameters
    ----------
    cubes : ndarray of int64, or None
        Sets of tests that suffice, as bit masks; None: all tests must hold.
    """
    if cubes is None:
        mask = match_all(window, position, lo, sp)
    else:
        mask = any_cube(match_each(window, position, lo, sp), cubes)
    return inside(mask, position, start, end)


@njit(nogil=True)
def scan(window, cubes, low, span, i, start, end, room, out_i, out_j, count):
    """Append the pairs of one tuple over ``[start, end)``."""
    lo, sp = row_of(low, i), row_of(span, i)
    position = start & ~(GRANULE - 1)
    while position < end:
        mask = granule(window, cubes, position, lo, sp, start, end)
        if mask:
            count = emit(mask, i, position, room, out_i, out_j, count)
            if count < 0:
                return count
        position += GRANULE
    return count


@njit(nogil=True)
def scan_two(window, low, span, i, start, end, dense, room, out_i, out_j, count):
    """Scan whole chunks for tuples i and i + 1, where all tests must hold; see :func:`scan`.

    Each load of a key serves both tuples. Where matches are ``dense``, nearly every chunk has one,
    and the masks are built at once.
    """
    lo, sp = (row_of(low, i), row_of(low, i + 1)), (row_of(span, i), row_of(span, i + 1))
    for chunk in range(start, end, CHUNK):
        if not dense and not any_match(window, chunk, lo, sp):
            continue
        for position in range(chunk, chunk + CHUNK, GRANULE):
            first = match_all(window, position, lo[0], sp[0])
            second = match_all(window, position, lo[1], sp[1])
            if first | second:
                if first:
                    count = emit(first, i, position, room, out_i, out_j, count)
                if second and count >= 0:
                    count = emit(second, i + 1, position, room, out_i, out_j, count)
                if count < 0:
                    return count
    return count


@njit(nogil=True)
def tile_all(window, low, span, start, end, dense, walk, out_i, out_j):
    """Append the pairs of the walk's tile where all tests hold; the new count, or -1."""
    count, room = walk[COUNT], walk[ROOM]
    for i in range(walk[FIRST], walk[LAST], 2):
        if count < 0:
            break
        a, b = max(start[i], walk[POSITION]), min(end[i], walk[EDGE])
        middle, tail, a2, b2 = b, b, 0, 0
        if i + 1 < walk[LAST]:
            # Ranges never step back, so two neighbours share their middle.
            a2, b2 = max(start[i + 1], walk[POSITION]), min(end[i + 1], walk[EDGE])
            aligned = (a2 + GRANULE - 1) & ~(GRANULE - 1)
            chunks = (b - aligned) // CHUNK
            if chunks > 0:
                middle, tail = aligned, aligned + chunks * CHUNK
                count = scan_two(
                    window, low, span, i, middle, tail, dense, room, out_i, out_j, count
                )
            else:
                middle, tail = max(b, b2), max(b, b2)
        # One call in a loop: four would be inlined four times, and compiled four times.
        for edge in range(4):
            if count < 0:
                break
            low_edge, high_edge = (a, middle) if edge < 2 else (tail, b)
            if edge & 1:
                low_edge, high_edge = (a2, middle) if edge < 2 else (tail, b2)
            high_edge = min(high_edge, b2 if edge & 1 else b)
            count = scan(
                window, None, low, span, i + (edge & 1), low_edge, high_edge, room, out_i, out_j,
                count,
            )  # fmt: skip
    return count


@njit(nogil=True)
def tile_any(window, cubes, low, span, start, end, walk, out_i, out_j):
    """Append the pairs of the tile where all tests of some cube hold; see :func:`tile_all`."""
    count = walk[COUNT]
    for i in range(walk[FIRST], walk[LAST]):
        a, b = max(start[i], walk[POSITION]), min(end[i], walk[EDGE])
        count = scan(window, cubes, low, span, i, a, b, walk[ROOM], out_i, out_j, count)
        if count < 0:
            break
    return count


@njit(nogil=True)
def rules_out(narrow, low, span, end, walk, tuples):
    """Whether to test the walk's tile by masks; makes the masks of its block if there are none.

    Parameters
    ----------
    narrow : tuple
        The window's codes and room for masks, each a tuple of D arrays; arguments of each test's
        narrow codes; the plan.
    low, span, end, walk
        As for :func:`run_pairs`.
    tuples : int
        Tuples of the tile that still are to be tested.
    """
    codes, block_masks, arguments, plan = narrow
    first, position, edge = walk[I0], walk[POSITION], walk[EDGE]
    if tuples < plan[TUPLES] or edge - position < plan[WIDTH]:
        return False
    if plan[MASKED] != first + 1:
        if end[walk[I1] - 1] - position < plan[AHEAD]:
            return False
        for d in range(len(block_masks)):
            make_masks(block_masks[d], arguments[d], low[d], span[d], first, walk[I1])
        plan[MASKED] = first + 1
    passed, step = 0, (edge - position) // SAMPLE_ROWS
    for k in range(SAMPLE_ROWS):
        for word in range(WORDS):
            passed += popcount(passing(block_masks, codes, position + k * step, word))
    if passed * 1024 > plan[PASSING] * SAMPLE_ROWS * (walk[LAST] - walk[FIRST]):
        return False
    plan[TILES] += 1
    return True


@njit(nogil=True)
def tile_masked(window, narrow, low, span, start, end, walk, out_i, out_j):
    """Append the pairs of the tile by masks of the block's tuples; see :func:`tile_all`."""
    count, room, edge = walk[COUNT], walk[ROOM], walk[EDGE]
    first, last = walk[I0], walk[LAST]
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
                out_i[count], out_j[count] = i, j
                count += is_match(window, low, span, start, end, last, edge, i, j)
                if count > room:
                    return -1
    return count


@kept(intrinsics, masks, narrow_codes, vector)
def run_pairs(window, cubes, low, span, narrow, start, end, walk, out_i, out_j):
    """Run a band task for pairs.

    Parameters
    ----------
    window : tuple of D arrays of the key dtype, longer than every range by a granule
    cubes : ndarray of int64, or None
        As for :func:`granule`.
    low, span : tuple of D arrays of the key dtype, shape (n,)
        Test d of tuple i is ``low[d][i] <= key <= low[d][i] + span[d][i]``, without wrap.
    narrow : tuple, or None
        Narrow codes and masks, see :func:`rules_out`; None if there are cubes.
    start, end : ndarray of int64, shape (n,)
    walk : ndarray of int64, shape (WALK_FIELDS,)
        From :func:`new_walk`; holds the outcome afterwards.
    out_i, out_j : ndarray of uint32, shape (room + SLACK,)
    """
    # Not a literal False, for whose own type Numba would compile all that takes it once more.
    count, dense = 0, walk[COUNT] < 0
    while next_tile(walk, start, end, count):
        if cubes is None:
            by_masks = False
            # What needs an argument that is None is not compiled, so each is asked by itself.
            if narrow is not None:
                by_masks = rules_out(narrow, low, span, end, walk, walk[LAST] - walk[FIRST])
                if by_masks:
                    count = tile_masked(window, narrow, low, span, start, end, walk, out_i, out_j)
            if not by_masks:
                count = tile_all(window, low, span, start, end, dense, walk, out_i, out_j)
        else:
            count = tile_any(window, cubes, low, span, start, end, walk, out_i, out_j)
        pairs = (walk[LAST] - walk[FIRST]) * (walk[EDGE] - walk[POSITION])
        dense = count < 0 or (count - walk[COUNT]) * DENSE > pairs
