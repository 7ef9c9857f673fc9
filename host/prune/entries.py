"""Ranges of a clustered slab that are left for groups of stream tuples.

A device wants ranges in an order in which neither starts nor ends step back. So stretches of blocks
are cut into powers of two: entries of one width, sorted by start, have such an order.
"""

from __future__ import annotations

import numpy as np

from ..device.cut import Piece
from ..kept_code import kept
from .clustering import TupleGroups

#: The widest range has ``2 ** (WIDTHS - 1)`` blocks.
WIDTHS = 8


def entries(
    may: np.ndarray, groups: TupleGroups, used: np.ndarray, low: int, block_rows: int
) -> list[Piece]:
    """Ranges of the blocks that groups may match, a piece for each width.

    Parameters
    ----------
    may : ndarray of bool, shape (groups, blocks)
        Whether a group may match a block.
    groups : TupleGroups
    used : ndarray of bool, shape (n,)
        Members that get entries.
    low : int
        Position of the first block.
    block_rows : int
    """
    per_group = np.add.reduceat(used.astype(np.int64), groups.edges[:-1])
    codes = np.zeros(may.shape[::-1], np.uint8)
    counts = np.zeros(WIDTHS, np.int64)
    _cut(np.ascontiguousarray(may), per_group, codes, counts)
    total = int(counts.sum())
    rows = np.empty(total, np.uint32)
    start, end = np.empty(total, np.int64), np.empty(total, np.int64)
    first = np.cumsum(counts) - counts
    _fill(
        codes, groups.members, groups.edges, used, low, block_rows, first.copy(), rows, start, end
    )
    return [
        Piece(rows[a : a + count], start[a : a + count], end[a : a + count])
        for a, count in zip(first, counts, strict=True)
    ]


@kept()
def _cut(may, members, codes, counts):
    """Cut stretches: 1 + the logarithm of the width where an entry begins; entries per width."""
    groups, blocks = may.shape
    for g in range(groups):
        if members[g] == 0:
            continue
        b = 0
        while b < blocks:
            if not may[g, b]:
                b += 1
                continue
            end = b + 1
            while end < blocks and may[g, end]:
                end += 1
            while b < end:
                width = 0
                while width + 1 < len(counts) and b + (2 << width) <= end:
                    width += 1
                codes[b, g] = width + 1
                counts[width] += members[g]
                b += 1 << width


@kept()
def _fill(codes, members, edges, used, low, block_rows, at, rows, start, end):
    """Write the entries, each width by start; ``at`` is the next place of each width."""
    blocks, groups = codes.shape
    for b in range(blocks):
        begin = low + b * block_rows
        for g in range(groups):
            if codes[b, g] == 0:
                continue
            width = np.int64(codes[b, g]) - 1
            stop = begin + (block_rows << width)
            k = at[width]
            for m in range(edges[g], edges[g + 1]):
                if used[m]:
                    rows[k] = members[m]
                    start[k] = begin
                    end[k] = stop
                    k += 1
            at[width] = k
