"""Tells which key a cache entry belongs to, where a server is asked for rows by key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...lookup.hash_table import HashTable
from ...rows.ordering import order_of

#: Seal of a hash that several requested keys share; no key has this seal.
_SEVERAL = np.uint64(0)
#: Hashes beyond twice those that are kept, at which the others are forgotten.
_SPARE = 1 << 16


class Seals:
    """Second hashes of keys by their first ones.

    An entry has all rows of a hash, if pages were read. If a server was asked for keys, it has the
    rows of those keys: another key with the same hash has to be asked for by itself.
    """

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)
        self._seals = np.zeros(0, np.uint64)
        self._table = HashTable()

    def outdated(self, hashes: np.ndarray, seals: np.ndarray) -> np.ndarray:
        """Return the hashes that were noted with another key."""
        place = self._table.find(hashes)
        known = np.flatnonzero(place >= 0)
        return np.unique(hashes[known][self._seals[place[known]] != seals[known]])

    def note(
        self, hashes: np.ndarray, seals: np.ndarray, find: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        """Note the keys that were asked for.

        Parameters
        ----------
        hashes, seals : ndarray of uint64
            Distinct hashes.
        find : callable
            Gives the entry of each hash, -1 where there is none.
        """
        place = self._table.find(hashes)
        is_known = place >= 0
        self._seals[place[is_known]] = seals[is_known]
        self._table.add(hashes[~is_known], len(self._hashes))
        self._hashes = np.concatenate([self._hashes, hashes[~is_known]])
        self._seals = np.concatenate([self._seals, seals[~is_known]])
        is_kept = find(self._hashes) >= 0
        if len(is_kept) > 2 * int(is_kept.sum()) + _SPARE:
            is_kept[-len(hashes) :] = True  # they arrive now
            is_kept[place[is_known]] = True
            self._hashes, self._seals = self._hashes[is_kept], self._seals[is_kept]
            self._table.replace(self._hashes)


def seals_of_groups(seals: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the seal of each group of rows, none empty; ``_SEVERAL`` where rows differ."""
    order = order_of(group, len(group))
    firsts = np.flatnonzero(np.diff(group[order], prepend=-1))
    if not len(firsts):
        return seals[:0]
    least = np.minimum.reduceat(seals[order], firsts)
    return np.where(least == np.maximum.reduceat(seals[order], firsts), least, _SEVERAL)
