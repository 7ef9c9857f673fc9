"""Entries by hash: which entry of a cache has a key."""

from __future__ import annotations

import numpy as np

from penstock.kept_code import kept

_EMPTY = np.int32(-1)


class HashTable:
    """Numbers by distinct hashes; open addressing with linear probing.

    Built anew when entries leave, which they do many at a time.
    """

    def __init__(self) -> None:
        self._build(np.zeros(0, np.uint64))

    @property
    def memory_bytes(self) -> int:
        return self._hashes.nbytes + self._numbers.nbytes

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """The number of each hash, -1 where there is none, as int32."""
        matches = np.empty(len(hashes), np.int32)
        _find(hashes, self._hashes, self._numbers, self._shift, matches)
        return matches

    def add(self, hashes: np.ndarray, number: int) -> None:
        """Add distinct hashes that are not there, numbered from ``number`` on."""
        if 4 * (number + len(hashes)) > 3 * len(self._hashes):
            used = self._numbers >= 0
            old = np.empty(int(used.sum()), np.uint64)
            old[self._numbers[used]] = self._hashes[used]
            self._build(np.concatenate([old, hashes]))
        else:
            _add(hashes, number, self._hashes, self._numbers, self._shift)

    def replace(self, hashes: np.ndarray) -> None:
        """Hold these distinct hashes only, numbered from 0 on."""
        self._build(hashes)

    def _build(self, hashes: np.ndarray) -> None:
        bits = max(10, int(2 * len(hashes)).bit_length())
        self._hashes = np.zeros(1 << bits, np.uint64)
        self._numbers = np.full(1 << bits, _EMPTY, np.int32)
        self._shift = np.uint64(64 - bits)
        _add(hashes, 0, self._hashes, self._numbers, self._shift)


_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@kept()
def _find(hashes, held, numbers, shift, matches):
    mask = len(held) - 1
    for k in range(len(hashes)):
        at = np.int64((hashes[k] * _SPREAD) >> shift)
        while numbers[at] != _EMPTY and held[at] != hashes[k]:
            at = (at + 1) & mask
        matches[k] = numbers[at]


@kept()
def _add(hashes, number, held, numbers, shift):
    mask = len(held) - 1
    for k in range(len(hashes)):
        at = np.int64((hashes[k] * _SPREAD) >> shift)
        while numbers[at] != _EMPTY:
            at = (at + 1) & mask
        held[at], numbers[at] = hashes[k], number + k
