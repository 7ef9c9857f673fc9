"""Index of a relation without pages of its own: slices of the hashes stand for pages."""

from __future__ import annotations

import numpy as np

from .border import PageIndex

#: Slices of the hashes at most, and rows of each at least.
_SLICES, _ROWS = 1 << 14, 64
_MOST_BYTES = (1 << 31) - 1


def slices_of_hashes(rows: int, bytes_: int) -> PageIndex:
    """Equal slices of the 64-bit hashes stand for pages.

    Rows that wait for one slice are asked for together, so many slices let few rows be asked for.

    Parameters
    ----------
    rows, bytes_ : int
        Of the relation; estimates are enough.
    """
    slices = max(1, min(_SLICES, rows // _ROWS))
    first = np.arange(slices, dtype=np.uint64) * np.uint64(((1 << 64) - 1) // slices)
    own_rows = np.full(slices, min(max(1, -(-rows // slices)), _MOST_BYTES), np.int32)
    own_bytes = np.full(slices, min(max(1, -(-bytes_ // slices)), _MOST_BYTES), np.int32)
    size = first.nbytes + own_rows.nbytes + own_bytes.nbytes
    return PageIndex(first, own_rows, own_bytes, {}, size)
