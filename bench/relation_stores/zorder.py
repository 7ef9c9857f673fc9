"""Places on a Z-order curve as keys, for stores that have one order only."""

from __future__ import annotations

import numpy as np

from bench.relation_stores.rows import COORDINATE_BITS, PLACES

#: A box is covered by squares of at least an eighth of its side.
_FINE = 8
_SPREADS = (
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)


def codes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Codes of places: the bits of both coordinates in turn; uint64."""
    return _spread(x) << np.uint64(1) | _spread(y)


def _spread(values: np.ndarray) -> np.ndarray:
    found = np.asarray(values).astype(np.uint64)
    for shift, mask in _SPREADS:
        found = (found | found << np.uint64(shift)) & np.uint64(mask)
    return found


def intervals(box: np.ndarray) -> list[tuple[int, int]]:
    """Codes that cover a box: from the first to the second one, without that; ascending.

    Parameters
    ----------
    box : ndarray of int
        Least and greatest x, least and greatest y.
    """
    low_x, high_x, low_y, high_y = np.clip(box, 0, PLACES - 1).tolist()
    finest = max((high_x - low_x) // _FINE, 1)
    found: list[tuple[int, int]] = []

    def cover(x: int, y: int, bits: int) -> None:
        side = 1 << bits
        if x > high_x or y > high_y or x + side <= low_x or y + side <= low_y:
            return
        inside = x >= low_x and y >= low_y and x + side - 1 <= high_x and y + side - 1 <= high_y
        if inside or side <= finest:
            first = int(codes(np.array(x), np.array(y)))
            last = first + (1 << 2 * bits)
            if found and found[-1][1] == first:
                found[-1] = (found[-1][0], last)
            else:
                found.append((first, last))
            return
        half = side // 2
        for right in (0, half):
            for down in (0, half):
                cover(x + right, y + down, bits - 1)

    cover(0, 0, COORDINATE_BITS)
    return found
