"""Narrow codes: the codes of a key in fewer bits, in the same order.

``narrow(a) <= narrow(b)`` wherever ``a <= b``, for all codes of a key, the reserved ones included.
So a row whose code lies within two bounds has a narrow code within their narrow codes, and what
fails the narrow test need not be tested in full. The converse does not hold: what passes must be.

Codes are told apart by rank among a sample of rows, so that each narrow code has about as many rows
as any other however skewed the keys are, and a value that many rows share has one to itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from penstock.kept_code import kept
from penstock.program import empty_code, null_code

#: Entries of the table of first steps, per edge: most keys are then placed by one comparison.
ENTRIES = 4


@dataclass(frozen=True)
class NarrowCodes:
    """A map of the codes of one key to narrow codes.

    Codes up to ``2**key_bits - 3`` have narrow codes up to ``2**bits - 3``; NULL and the empty
    range's bounds have the reserved ones of as many bits (see :mod:`penstock.program`).

    Parameters
    ----------
    key_bits, bits : int
        Bits of a code and of a narrow code.
    edges : ndarray, shape (n,), n <= 2**bits - 3
        Ascending codes, in the key's dtype. A narrow code is the number of edges that are not
        above the code.
    shift : int
        Entry of a code in ``first``: ``(code - edges[0]) >> shift``.
    first : ndarray of uint16, or of uint32 if there are more than 16 bits
        Edges below each entry's codes, and ``n`` at the end.
    """

    key_bits: int
    bits: int
    edges: np.ndarray
    shift: int
    first: np.ndarray

    @classmethod
    def fit(cls, sample: np.ndarray, key_bits: int, bits: int) -> NarrowCodes:
        """The map that splits a sample of rows most evenly.

        Parameters
        ----------
        sample : ndarray
            Codes of some rows, in any order, in the key's dtype.
        key_bits : int
        bits : int
            2 to 32.
        """
        known = np.sort(sample[sample < empty_code(key_bits)])
        count = empty_code(bits) - 1
        if not len(known) or not count:
            return cls.of_edges(known[:0], key_bits, bits)
        picked = known[np.arange(count) * len(known) // count]
        # A value that is picked again has many rows: an edge behind it keeps others out.
        again = picked[1:][picked[1:] == picked[:-1]]
        return cls.of_edges(
            np.unique(np.concatenate([picked, again + again.dtype.type(1)])), key_bits, bits
        )

    @classmethod
    def of_edges(cls, edges: np.ndarray, key_bits: int, bits: int) -> NarrowCodes:
        """The map with these edges, each once."""
        entry_type = np.uint16 if bits <= 16 else np.uint32
        if not len(edges):
            return cls(key_bits, bits, edges, 0, np.zeros(2, entry_type))
        reach = int(edges[-1]) - int(edges[0])
        shift = max(reach.bit_length() - (ENTRIES * len(edges)).bit_length() + 1, 0)
        entries = ((edges - edges[0]) >> edges.dtype.type(shift)).astype(np.intp)
        first = np.zeros((reach >> shift) + 2, entry_type)
        np.cumsum(np.bincount(entries), out=first[1:])
        return cls(key_bits, bits, edges, shift, first)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Arguments of :func:`narrow_code` after the code."""
        null, narrow_null = null_code(self.key_bits), null_code(self.bits)
        return self.edges, np.uint64(self.shift), self.first, np.uint64(null), np.int64(narrow_null)

    def encode(self, codes: np.ndarray) -> np.ndarray:
        """Narrow codes, as uint16."""
        narrow = np.empty(len(codes), np.uint16)
        self.write(narrow, codes)
        return narrow

    def write(self, narrow: np.ndarray, codes: np.ndarray) -> None:
        """Write the narrow codes of ``codes`` into ``narrow``, a uint16 array as long."""
        _write(narrow, codes, *self.arguments)


@njit(nogil=True)
def narrow_code(code, edges, shift, first, null, narrow_null):
    """Narrow code of a code, as int64; other arguments from :attr:`NarrowCodes.arguments`."""
    code = np.uint64(code)
    if code >= null:
        return narrow_null
    if code == null - np.uint64(1):
        return narrow_null - 1
    if len(edges) == 0 or code < edges[0]:
        return 0
    entry = np.int64(min((code - np.uint64(edges[0])) >> shift, np.uint64(len(first) - 2)))
    low, high = np.int64(first[entry]), np.int64(first[entry + 1])
    while low < high:
        middle = (low + high) >> 1
        if np.uint64(edges[middle]) <= code:
            low = middle + 1
        else:
            high = middle
    return low


@kept()
def _write(narrow, codes, edges, shift, first, null, narrow_null):
    for k in range(len(codes)):
        narrow[k] = narrow_code(codes[k], edges, shift, first, null, narrow_null)
