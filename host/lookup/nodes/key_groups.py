"""Rows by key as they are put together for an answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...relation.border import PageRows
from ..cache import KeyGroups
from .messages import KeyRows


def groups_of(sought: np.ndarray, rows: PageRows) -> KeyGroups:
    """The groups of keys among rows of pages, which ascend; groups without rows included."""
    starts = np.searchsorted(rows.hashes, sought)
    ends = np.searchsorted(rows.hashes, sought, side="right")
    return KeyGroups(sought, starts, ends - starts, rows.batch)


def groups_from(rows: KeyRows) -> KeyGroups:
    """The groups that another node has sent."""
    return KeyGroups(rows.hashes, np.cumsum(rows.counts) - rows.counts, rows.counts, rows.batch)


def rows_for(hashes: np.ndarray, parts: Sequence[KeyGroups]) -> KeyRows:
    """The rows of some keys, in their order.

    Parameters
    ----------
    hashes : ndarray of uint64, ascending
    parts : sequence of KeyGroups
        At least one. Each key is in one of them at most; the others have no rows.
    """
    found = parts[0] if len(parts) == 1 else KeyGroups.concat(list(parts))
    order = np.argsort(found.hashes)
    counts = np.zeros(len(hashes), np.int64)
    counts[np.searchsorted(hashes, found.hashes[order])] = found.counts[order]
    return KeyRows(hashes, counts, found.pick(order).batch)
