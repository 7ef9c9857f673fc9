"""Groups by session: entries of one key that are at most a gap apart merge into one.

An entry is a part of a session: its time key is the time of its first row, and one of its folds is
the time of its last row. Each row begins as a part of its own; parts of one key merge once a limit
has passed them, in any order and any number of steps, as other entries do.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.plan.query import SessionKey

from ..emit.groups.closing import Limit
from .entry_layout import EntryLayout
from .merger import EntryMerger
from .panes import Panes
from .store import LogStore
from .words import integers


class SessionParts:
    """Release of groups by session: merges the parts of sessions, and finds sessions that are over.

    Parameters
    ----------
    session : SessionKey
    layout : EntryLayout
    merger : EntryMerger
    """

    def __init__(self, session: SessionKey, layout: EntryLayout, merger: EntryMerger) -> None:
        self._gap, self._layout, self._merger = session.gap, layout, merger
        self._first = layout.keys[session.key].offset
        self._last = layout.folds[layout.uses[session.last].folds[0]]
        self._type = layout.keys[session.key].expr.type
        #: Limit of the last release: until it rises, no further session is over.
        self._limit: Limit = -math.inf

    def release(self, led: Panes, limit: Limit, texts: np.ndarray) -> np.ndarray:
        """Return the entries of sessions that no later row can join, and forget them.

        These sessions end more than a gap below the limit. Parts that begin at the limit or later
        belong to none of them.

        Returns
        -------
        ndarray of int64, shape (n, words)
        """
        if limit <= self._limit:
            return np.zeros((0, self._layout.words), np.int64)
        parts = led.release(limit, texts)
        whole = self._merged(parts, texts)
        led.recycle()
        last = self._lasts(whole)
        is_over = np.ones(len(whole), bool) if limit == math.inf else last < limit - self._gap
        led.merge(np.ascontiguousarray(whole[~is_over]), texts)
        self._limit = limit
        return whole[is_over]

    def _merged(self, parts: np.ndarray, texts: np.ndarray) -> np.ndarray:
        """Merge parts into sessions; returns one entry for each."""
        if not len(parts):
            return parts
        masks = self._layout.masks
        key_words = [k for k in range(self._layout.compared) if k != self._first and masks[k]]
        first, last = parts[:, self._first], self._lasts(parts)
        keys = [parts[:, word] & masks[word] for word in key_words]
        order = np.lexsort([first, *keys])
        parts, first, last = parts[order], first[order], last[order]
        is_other = np.arange(len(parts)) == 0
        for key in keys:
            sorted_key = key[order]
            is_other[1:] |= sorted_key[1:] != sorted_key[:-1]
        reached = _running_most(last, np.cumsum(is_other) - 1)
        begins = is_other.copy()
        # Without a sign no difference overflows, where the first is the larger one.
        apart = (first[1:].view(np.uint64) - reached[:-1].view(np.uint64)) > np.uint64(self._gap)
        begins[1:] |= apart & (first[1:] > reached[:-1])
        parts[:, self._first] = first[np.flatnonzero(begins)][np.cumsum(begins) - 1]
        store = LogStore(self._merger, int(begins.sum()))
        store.merge(parts.reshape(-1), 0, len(parts), texts)
        return store.entries.copy()

    def _lasts(self, parts: np.ndarray) -> np.ndarray:
        words = self._last.fold.words
        columns = parts[:, self._last.offset : self._last.offset + words].T
        return integers(columns, None).values.astype(np.int64)


def _running_most(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the running maximum of values within each group."""
    distinct, ranks = np.unique(values, return_inverse=True)
    count = len(distinct)
    return distinct[np.maximum.accumulate(groups * count + ranks) % count]
