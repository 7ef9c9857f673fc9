"""The cache of CACHEJOIN: rows that matched more often than a threshold (paper 5, B)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .cache import SLACK, Cache, KeyGroups

#: Share of the entries whose replacement, while as many rows are answered, is too often.
_TOO_OFTEN = 1 / 50


class ThresholdCache(Cache):
    """Keeps rows that matched more often than a threshold; a random one leaves.

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
