"""Conversions between groups of rows by key and the answers that nodes send."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cache import KeyGroups
from .messages import KeyRows


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
    groups = parts[0] if len(parts) == 1 else KeyGroups.concat(list(parts))
    order = np.argsort(groups.hashes)
    counts = np.zeros(len(hashes), np.int64)
    counts[np.searchsorted(hashes, groups.hashes[order])] = groups.counts[order]
    return KeyRows(hashes, counts, groups.pick(order).batch)
