"""Algorithms of a look-up by the names of their papers: a choice of pages and a cache for each.

MESHJOIN reads all pages in turn (:class:`~.pages.Cyclic`) and keeps no rows. CACHEJOIN and
D-CACHEJOIN read as it does and have a cache (:class:`ThresholdCache`); D-CACHEJOIN is spread over
nodes (:mod:`.nodes`), which send hashes along. HYBRIDJOIN reads the page of the oldest waiting row
(:class:`~.pages.Oldest`). ``auto`` is ours: wanted pages only, and a cache by frequency.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa

from .cache import SLACK, Cache, FrequencyCache, KeyGroups, NoCache
from .pages import Cyclic, Oldest, PageChoice, Wanted

#: Replaced share of the entries, per as many answered rows, that is too much.
_TOO_OFTEN = 1 / 50


class ThresholdCache(Cache):
    """Cache (HR) of CACHEJOIN: takes rows that matched more often than a threshold for random ones.

    The threshold is looked at when as many rows were answered as there are entries: it rises by 1
    if more than a fiftieth of the entries was replaced meanwhile, and falls by 1 if there is room.
    The paper gives no steps. Within one iteration, of some hundred pages, a cache is never replaced
    so much that it would be too often, and a threshold that stays at 0 finds half as many hits.
    """

    def __init__(self, schema: pa.Schema, most_bytes: int, seed: int) -> None:
        super().__init__(schema, most_bytes)
        self._random = np.random.default_rng(seed)
        self._threshold = 0
        self._answered = self._replaced = 0  # since the last look

    def came(self, hashes: np.ndarray) -> None:
        pass

    def offer(self, groups: KeyGroups, matched: np.ndarray, row_bytes: float) -> None:
        sizes = self.sizes(groups, row_bytes)
        wanted = np.flatnonzero(matched > self._threshold)
        before, replaced = len(self), 0
        room = self.most_bytes - self.used_bytes
        short = int(sizes[wanted].sum()) - room
        if short > 0 and before:
            leaving = self._random.permutation(before)
            freed = np.cumsum(self._bytes[leaving])
            replaced = min(int(np.searchsorted(freed, short)) + 1, before)
            self._keep(np.sort(leaving[replaced:]))
            room = self.most_bytes - self.used_bytes
        wanted = wanted[np.cumsum(sizes[wanted]) <= room]
        if len(wanted):
            self._add(groups.pick(wanted), sizes[wanted])
        self._answered += int(matched.sum())
        self._replaced += replaced
        if self._answered >= len(self):
            if self._replaced > _TOO_OFTEN * len(self):
                self._threshold += 1
            elif self.used_bytes < self.most_bytes * (1 - SLACK) and self._threshold:
                self._threshold -= 1
            self._answered = self._replaced = 0


class Algorithm(StrEnum):
    """Algorithm of a look-up, named as in its paper."""

    AUTO = "auto"
    MESHJOIN = "meshjoin"
    HYBRIDJOIN = "hybridjoin"
    CACHEJOIN = "cachejoin"
    D_CACHEJOIN = "d-cachejoin"

    def choice(self, sizes: np.ndarray, rows: np.ndarray, most_bytes: int) -> PageChoice:
        """Make the choice of pages, given their sizes, their rows and the bytes to read at once."""
        if self is Algorithm.AUTO:
            return Wanted(sizes, rows, most_bytes)
        if self is Algorithm.HYBRIDJOIN:
            return Oldest(sizes, most_bytes)
        return Cyclic(sizes, most_bytes)

    def cache(self, schema: pa.Schema, most_bytes: int, keys: int) -> Cache:
        """Make the cache of rows with this schema; ``keys`` is about how many keys fit."""
        if self is Algorithm.AUTO:
            cache = FrequencyCache(schema, most_bytes, keys)
            cache.resize(most_bytes)  # what counts keys takes some of it
            return cache
        if self.keeps_rows:
            return ThresholdCache(schema, most_bytes, seed=1)
        return NoCache(schema, 0)

    @property
    def keeps_rows(self) -> bool:
        """Whether the algorithm has a cache."""
        return self not in (Algorithm.MESHJOIN, Algorithm.HYBRIDJOIN)
