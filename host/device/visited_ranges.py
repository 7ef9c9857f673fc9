"""The ranges of places that the tuples of a search visit, for compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.kept_code import kept

#: Entries of a slab's directory beside those of its cells: one for rows that lie in no cell,
#: and the end.
MORE_STARTS = 2
#: Most rows of neighbouring cells whose positions are compared only where they match.
MOST_UNCUT = 128

# Places of what compiled loops need in :attr:`.search.RangeWalk.state`.
START, STOP, ORDER, SIZES, ROW, LOW, HIGH, WHOLE = 4, 5, 7, 9, 11, 12, 13, 14


@kept()
def next_ranges(
    outer_low, outer_high, inner_low, inner_high, start, end, floor, order, starts, sizes, state,
    row, low, high, whole, key, hashes,
):  # fmt: skip
    """Write ranges that are not empty, as many as fit; ``state`` says where to go on."""
    first, rows, count, cells, inner, apart, keyed = sizes
    i, slab, outer, at = state
    n = near = 0
    while i < len(start):
        s, e = max(start[i] - first, 0), min(end[i] - first, count)
        if slab < 0:
            if not near * rows <= s < (near + 1) * rows:
                near = s // rows  # a division takes as long as the rest of a short range
            slab = np.int64(near)
        while slab * rows < e and s < e:
            base = slab * rows
            top = min(base + rows, count)
            if outer < 0:
                outer = np.int64(outer_low[i])
            while outer <= outer_high[i]:
                cell = slab * (cells + MORE_STARTS) + outer * inner
                is_whole = s <= base and e >= top
                if at < 0:
                    at = np.int64(inner_low[i])
                while at <= inner_high[i]:
                    if n == len(row):
                        state[0], state[1], state[2], state[3] = i, slab, outer, at
                        return n
                    # Rows of neighbouring cells follow each other, but not in the order of time.
                    last = at if apart or keyed else np.int64(inner_high[i])
                    a, b = base + starts[cell + at], base + starts[cell + last + 1]
                    is_in = is_whole
                    if keyed:
                        if a < b and (hashes[a] != key[i] or hashes[b - 1] != key[i]):
                            a = _first_at(hashes, a, b, key[i])
                            b = _first_beyond(hashes, a, b, key[i])
                        if not is_whole and a < b:
                            b = _first_at(order, a, b, e - base)
                            a = _first_at(order, a, b, s - base)
                        is_in = True
                    elif not is_whole and (apart or b - a > MOST_UNCUT):
                        last = at
                        b = base + starts[cell + last + 1]
                        b = _first_at(order, a, b, e - base)
                        a = _first_at(order, a, b, s - base)
                        is_in = True
                    a = max(a, floor[i])
                    if a < b:
                        row[n], low[n], high[n], whole[n] = i, a, b, is_in
                        n += 1
                    at = last + 1
                at = np.int64(-1)
                outer += 1
            outer = np.int64(-1)
            slab += 1
        slab = np.int64(-1)
        i += 1
    state[0] = i
    return n


@kept()
def _first_beyond(hashes, low, high, key):
    """The first of the places ``[low, high)`` with a larger hash, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if hashes[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@kept()
def _first_at(values, low, high, least):
    """The first of the places ``[low, high)`` with this value or a larger one, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low
