"""Zones: blocks of ordered rows with the least and greatest of each key, below a tree of groups.

Rows lie by a first key. A *block* has the next BLOCK rows of a slab, a *group* FAN blocks, or FAN
groups of the level below. A tuple goes down from the root to the blocks whose rows may all its
bounds admit. Where the first key's bounds admit a stretch of places and one other key is bounded
from one side, each block inside the stretch has a match: the row with its least or greatest key.
So a tuple tests BLOCK rows for each match at most, and those of two blocks at the stretch's ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from llvmlite import ir
from numba import types

from penstock.kept_code import kept

from . import intrinsics
from .intrinsics import intrinsic, load, lowest_bit, splat

#: Rows of a block: as many as the loops test at a time.
BLOCK = 64
#: Blocks, or groups, of a group: four vectors of 512 bits for each end of a key. 16 and 64 take
#: 1.1 and 1.6 times as long.
FAN = 32

_ALL = np.uint64((1 << FAN) - 1)
_ONE = np.uint64(1)


@dataclass(frozen=True, eq=False)
class ZoneTree:
    """Zones of ordered rows, slab by slab.

    Parameters
    ----------
    levels : ndarray of int64, shape (levels + 1,)
        Where each level's groups begin in a slab's part of ``ends``, the root first; at last that
        part's length.
    keys : int
        Number of keys of a zone; rows lie by the first one.
    placed : int
        Number of the key that is the position in the slab; -1 for none.
    ends : ndarray of uint64, shape (slabs * levels[-1],)
        For each group, key by key: the least key of each of its FAN members, then the greatest.
    """

    levels: np.ndarray
    keys: int
    placed: int
    ends: np.ndarray


@dataclass(frozen=True, eq=False)
class ZoneBounds:
    """Bounds of tuples for the keys of zones.

    Parameters
    ----------
    bounds : ndarray of uint64, shape (n, 2 * keys)
        ``lo_0, hi_0, lo_1, ...``, both included. To the two of the position, the walk adds the ends
        of the tuple's own range.
    """

    bounds: np.ndarray

    def pick(self, rows: np.ndarray) -> ZoneBounds:
        """The bounds of some tuples."""
        return ZoneBounds(self.bounds[rows])

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self.bounds,)


def zone_levels(rows: int, keys: int) -> np.ndarray:
    """``ZoneTree.levels`` for slabs of so many rows."""
    groups = [-(-rows // (BLOCK * FAN))]
    while groups[-1] > 1:
        groups.append(-(-groups[-1] // FAN))
    return np.cumsum([0, *groups[::-1]]) * (2 * keys * FAN)


#: Arguments of :func:`next_zones` for rows that have no zones: bounds, ends, levels, and the
#: state of the walk.
NO_ZONES = (np.zeros((0, 0), np.uint64), np.zeros(0, np.uint64), *(np.zeros(0, np.int64),) * 2)


def zone_arguments(tree: ZoneTree, bounds: ZoneBounds) -> tuple[np.ndarray, ...]:
    """Make the last arguments of :func:`next_zones` for a walk that begins."""
    levels = len(tree.levels) - 1
    # For each level the group and its members to visit, then the bounds in the slab at hand.
    walk = np.zeros(2 * levels + 2 * tree.keys, np.int64)
    tuples = np.require(bounds.bounds, np.uint64, ["C", "W"])
    return tuples, np.require(tree.ends, np.uint64, ["C", "W"]), tree.levels, walk


@intrinsic
def _meeting(typingctx, ends, at, low, high):
    """Mask of the members with a least key up to ``high`` and a greatest one from ``low`` on.

    Parameters
    ----------
    ends : ndarray of uint64
    at : int64
        Where the least keys begin; the greatest ones follow.
    low, high : uint64
    """

    def codegen(context, builder, signature, args):
        masks = []
        for k, (test, bound) in enumerate((("<=", args[3]), (">=", args[2]))):
            place = builder.add(args[1], ir.Constant(ir.IntType(64), k * FAN))
            keys = load(context, builder, signature.args[0], args[0], place, FAN)
            masks.append(builder.icmp_unsigned(test, keys, splat(builder, bound, FAN)))
        mask = builder.bitcast(builder.and_(*masks), ir.IntType(FAN))
        return builder.zext(mask, ir.IntType(64))

    return types.uint64(ends, types.int64, types.uint64, types.uint64), codegen


@kept(intrinsics)
def next_zones(
    start, end, floor, sizes, state, row, low, high, whole, bounds, ends, levels, walk
):  # fmt: skip
    """Write ranges as :func:`.search.next_ranges` does, for rows with zones."""
    first, rows, count, placed = sizes[0], sizes[1], sizes[2], sizes[7]
    leaf, keys = len(levels) - 2, bounds.shape[1] // 2
    group, members = walk[: leaf + 1], walk[leaf + 1 : 2 * leaf + 2].view(np.uint64)
    limits = walk[2 * leaf + 2 :].view(np.uint64)
    i, slab, level = state[0], state[1], state[2]
    n = 0
    while i < len(start):
        s, e = max(start[i] - first, 0), min(end[i] - first, count)
        if slab < 0:
            slab = s // rows
        while slab * rows < e and s < e:
            base = slab * rows
            top = min(base + rows, count)
            is_whole = s <= base and e >= top
            zones = slab * levels[leaf + 1]
            is_new = level < 0
            if is_new:
                for k in range(2 * keys):
                    limits[k] = bounds[i, k]
                if placed >= 0:
                    limits[2 * placed] += np.uint64(max(s - base, 0))
                    limits[2 * placed + 1] += np.uint64(min(e, top) - base - 1)
                level = np.int64(0)
                group[0] = 0
            while level >= 0:
                if is_new:
                    at = zones + levels[level] + group[level] * 2 * keys * FAN
                    mask = _ALL
                    for k in range(keys):
                        mask &= _meeting(ends, at, limits[2 * k], limits[2 * k + 1])
                        if mask == 0:
                            break
                        at += 2 * FAN
                    if mask and floor[i] > base:  # members below the floor are done
                        done = (floor[i] - base) // BLOCK
                        for _ in range(leaf - level):
                            done //= FAN
                        done -= group[level] * FAN
                        if done >= FAN:
                            mask = np.uint64(0)
                        elif done > 0:
                            mask &= _ALL << np.uint64(done)
                    members[level] = mask
                    is_new = False
                mask = members[level]
                if mask == 0:
                    level -= 1
                    continue
                bit = lowest_bit(mask)
                member = group[level] * FAN + bit
                if level < leaf:
                    members[level] = mask & (mask - _ONE)
                    level += 1
                    group[level] = member
                    is_new = True
                    continue
                if n == len(row):
                    state[0], state[1], state[2] = i, slab, level
                    return n
                # Neighbouring blocks are one range.
                upto = lowest_bit(~(mask >> np.uint64(bit))) + bit
                members[level] = mask & (_ALL << np.uint64(upto))
                a = max(base + member * BLOCK, floor[i])
                b = min(base + (group[level] * FAN + upto) * BLOCK, top)
                if a < b:
                    row[n], low[n], high[n], whole[n] = i, a, b, is_whole
                    n += 1
            slab += 1
        slab = np.int64(-1)
        i += 1
    state[0] = i
    return n
