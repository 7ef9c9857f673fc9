"""Filters of pages: they tell of most keys that a page lacks them, without reading it.

Each page has a Bloom filter (Bloom, CACM 1970) of the hashes of its rows' keys, with a byte per
row: some 2 % of the keys that a page lacks pass it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

from penstock.kept_code import kept

_PROBES = 5
_SPREAD, _STEP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class PageFilters:
    """The filters of some pages.

    Parameters
    ----------
    stored : Array of large_binary
        One per page.
    """

    def __init__(self, stored: pa.LargeBinaryArray) -> None:
        _, offsets, content = stored.buffers()
        self._ends = np.frombuffer(offsets, np.int64)[stored.offset :][: len(stored) + 1].copy()
        data = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
        self._bits = data[self._ends[0] : self._ends[-1]].copy()
        self._ends -= self._ends[0]

    @property
    def memory_bytes(self) -> int:
        return self._bits.nbytes + self._ends.nbytes

    def lack(self, hashes: np.ndarray, pages: np.ndarray) -> np.ndarray:
        """Whether each page certainly has no row of the hash; page -1 has none.

        Parameters
        ----------
        hashes : ndarray of uint64, shape (n,)
        pages : ndarray of int64, shape (n,)

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        lacks = np.empty(len(hashes), bool)
        _lack(hashes, pages, self._bits, self._ends, lacks)
        return lacks


def filters_of(hashes: np.ndarray, ends: np.ndarray) -> pa.LargeBinaryArray:
    """The filters of pages, to be stored.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (rows,)
    ends : ndarray of int64, shape (pages,)
        The rows before which each page ends.
    """
    bits = np.zeros(len(hashes), np.uint8)
    starts = np.concatenate([[0], ends])
    _fill(hashes, starts, bits)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        len(ends),
        [None, pa.py_buffer(starts.astype(np.int64)), pa.py_buffer(bits)],
    )


@njit(nogil=True)
def _place(key: np.uint64, probe: int, size: int) -> np.int64:
    """Position of the bit of a probe, below ``size``."""
    mixed = key * _SPREAD + np.uint64(probe) * ((key * _STEP) | np.uint64(1))
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@kept()
def _fill(hashes, starts, bits):
    for page in range(len(starts) - 1):
        first, size = starts[page], 8 * (starts[page + 1] - starts[page])
        for k in range(first, starts[page + 1]):
            for probe in range(_PROBES):
                bit = _place(hashes[k], probe, size)
                bits[first + (bit >> 3)] |= np.uint8(1 << (bit & 7))


@kept()
def _lack(hashes, pages, bits, ends, lacks):
    for k in range(len(hashes)):
        lacks[k] = True
        if pages[k] < 0:
            continue
        first, size = ends[pages[k]], 8 * (ends[pages[k] + 1] - ends[pages[k]])
        if not size:
            continue
        lacks[k] = False
        for probe in range(_PROBES):
            bit = _place(hashes[k], probe, size)
            if not bits[first + (bit >> 3)] >> (bit & 7) & 1:
                lacks[k] = True
                break
