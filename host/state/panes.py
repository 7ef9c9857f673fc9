"""Led groups of a worker by time, so that a closed window is released as a whole log."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..emit.groups.closing import Limit, below
from .merger import EntryMerger
from .store import LogStore, Target

#: Most panes: beyond, each gets a longer span, and neighbours are merged.
MOST_PANES = 256
#: Panes that are left after that, at most.
_MERGED_PANES = MOST_PANES // 2
#: Bits of a time.
_TIME_BITS = 64


class Panes:
    """Log stores by time key: pane ``b`` has the groups whose time key ``t >> shift == b``.

    Without a time key there is one pane.

    Parameters
    ----------
    merger : EntryMerger
    """

    def __init__(self, merger: EntryMerger) -> None:
        self._layout, self._merger = merger.layout, merger
        self._shift = 0
        self._panes: dict[int, LogStore] = {}
        #: An emptied store for the next pane, which saves allocating its memory.
        self._spare: LogStore | None = None
        self._closed: list[LogStore] = []
        self._latest = 0

    @property
    def entries(self) -> int:
        return sum(pane.count for pane in self._panes.values())

    @property
    def nbytes(self) -> int:
        spare = [] if self._spare is None else [self._spare]
        return sum(store.nbytes for store in (*self._panes.values(), *spare))

    def logs(self) -> Iterator[np.ndarray]:
        """Yield the entries of each pane, in order of time: views, valid until the next change."""
        for bucket in sorted(self._panes):
            yield self._panes[bucket].entries

    def merge(
        self, entries: np.ndarray, texts: np.ndarray, span: tuple[int, int] | None = None
    ) -> None:
        """Merge entries into their panes.

        Parameters
        ----------
        entries : ndarray of int64, shape (n, words), contiguous
        texts : ndarray of uint64
            The hash of each text, by code.
        span : (int, int), optional
            The least and the greatest time key, where they are known.
        """
        self.recycle()
        if not len(entries):
            return
        at = self._layout.time_offset
        if at < 0:
            self._pane(0).merge(entries.reshape(-1), 0, len(entries), texts)
            return
        times = entries[:, at]
        first, last = (int(times.min()), int(times.max())) if span is None else span
        if first >> self._shift == last >> self._shift:
            bucket = first >> self._shift
            if bucket not in self._panes and len(self._panes) >= MOST_PANES:
                self._widen(np.array([bucket]), texts)
                bucket = first >> self._shift
            self._pane(bucket).merge(entries.reshape(-1), 0, len(entries), texts)
            return
        buckets = times >> self._shift
        distinct = np.unique(buckets)
        if len(distinct) + len(self._panes) > MOST_PANES:
            self._widen(distinct, texts)
            buckets = times >> self._shift
        steps = np.diff(buckets)
        if steps.min() < 0:  # entries of rows in order of time need no copy
            order = np.argsort(buckets, kind="stable")
            entries, buckets = entries[order], buckets[order]
            steps = np.diff(buckets)
        start = 0
        for end in [*(np.flatnonzero(steps) + 1).tolist(), len(buckets)]:
            self._pane(int(buckets[start])).merge(entries.reshape(-1), start, end, texts)
            start = end

    def target(self) -> Target:
        """Return the pane that was used last, to merge rows into at once."""
        if self._layout.time_offset < 0:
            return Target(self._pane(0))
        if self._latest not in self._panes:
            return Target(LogStore(self._merger), 0, -1)  # takes none
        low = self._latest << self._shift
        return Target(self._pane(self._latest), low, low + (1 << self._shift) - 1)

    def release(self, limit: Limit, texts: np.ndarray) -> np.ndarray:
        """Return the entries whose time key is below a limit, and forget them.

        Without a time key all leave if the limit is infinite, none otherwise. The entries may be
        views, until :meth:`recycle` or the next merge.

        Returns
        -------
        ndarray of int64, shape (n, words)
        """
        at = self._layout.time_offset
        parts = [np.zeros((0, self._layout.words), np.int64)]
        for bucket in sorted(self._panes):
            pane = self._panes[bucket]
            if at < 0:
                if limit != math.inf:
                    break
            elif not limit > bucket << self._shift:
                break
            elif limit < (bucket + 1) << self._shift:
                closed = below(pane.entries[:, at], limit)
                parts.append(pane.entries[closed])
                kept = pane.entries[~closed]
                pane.clear()
                pane.merge(kept.reshape(-1), 0, len(kept), texts)
                if not len(kept):
                    del self._panes[bucket]
                break
            parts.append(pane.entries)
            del self._panes[bucket]
            self._closed.append(pane)
        if not self._panes:
            self._shift = 0
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def recycle(self) -> None:
        """Keep the largest store of the closed panes for the next pane."""
        for pane in self._closed:
            if self._spare is None or pane.nbytes > self._spare.nbytes:
                pane.clear()
                self._spare = pane
        self._closed = []

    def trim(self) -> None:
        """Free the store that is kept for the next pane."""
        self.recycle()
        self._spare = None

    def recode(self, codes: np.ndarray) -> None:
        """Replace the codes of texts: ``codes[c]`` replaces ``c``.

        The hash of an entry follows from the bytes of its texts, so the indexes stay as they are.
        """
        for pane in self._panes.values():
            for word in self._layout.text_words:
                pane.entries[:, word] = codes[pane.entries[:, word]]

    def _pane(self, bucket: int) -> LogStore:
        self._latest = bucket
        pane = self._panes.get(bucket)
        if pane is None:
            pane = self._spare if self._spare is not None else LogStore(self._merger)
            self._spare = None
            self._panes[bucket] = pane
        return pane

    def _widen(self, more: np.ndarray, texts: np.ndarray) -> None:
        """Give panes a longer span, so that few are left even with some further buckets."""
        held = np.array(sorted({*self._panes, *more.tolist()}), np.int64)
        by = 0
        while by < _TIME_BITS and len(np.unique(held >> by)) > _MERGED_PANES:
            by += 1
        self._shift += by
        before, self._panes = self._panes, {}
        for bucket, pane in sorted(before.items()):
            target = self._panes.setdefault(bucket >> by, pane)
            if target is not pane:
                larger, smaller = sorted((target, pane), key=lambda s: s.count, reverse=True)
                larger.merge(smaller.log, 0, smaller.count, texts)
                self._panes[bucket >> by] = larger
