"""Cuts sorted rows into pages by their bytes."""

from __future__ import annotations

import numpy as np

from penstock.kept_code import kept


def cut(
    row_bytes: np.ndarray, hashes: np.ndarray | None, page_bytes: int, *, last: bool
) -> np.ndarray:
    """Cut rows into pages.

    Parameters
    ----------
    row_bytes : ndarray of int64, shape (rows,)
    hashes : ndarray of uint64, shape (rows,), or None
        Ascending; rows of one hash stay together.
    page_bytes : int
        A page is closed before it would be longer, if it has a row, or a hash, already.
    last : bool
        Whether the last rows are a page, too; otherwise more rows may follow.

    Returns
    -------
    ndarray of int64, shape (pages,)
        The row behind the last one of each page.
    """
    keys = np.zeros(0, np.uint64) if hashes is None else hashes
    ends = np.empty(len(row_bytes) + 1, np.int64)
    count = _cut(row_bytes, keys, page_bytes, ends)
    if last and len(row_bytes):
        ends[count] = len(row_bytes)
        count += 1
    return ends[:count].copy()


@kept()
def _cut(row_bytes, hashes, page_bytes, ends):
    count = 0
    start = 0  # of the page
    group = 0  # of the rows of one hash
    size = np.int64(0)  # of the page up to the group
    group_size = np.int64(0)  # of the group
    for row in range(len(row_bytes)):
        if row and (len(hashes) == 0 or hashes[row] != hashes[row - 1]):
            size += group_size
            group_size, group = np.int64(0), row
        group_size += row_bytes[row]
        if group > start and size + group_size > page_bytes:
            ends[count] = group
            count += 1
            start, size = group, np.int64(0)
    return count
