"""Orders of rows by one key, with the least and greatest of their other keys, zone by zone.

For bounds from one side, and bounds as wide as they are different.

Rows lie by the code for equality, and then by a band key or by position. The least and greatest
keys of zones begin with the code for equality, too, so that rows of another one at either end of a
zone do not widen it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kept_code import kept

from ..device import zones
from ..device.zones import BLOCK, FAN, ZoneBounds, ZoneTree, zone_levels
from .cells import parts_of

#: Number of the position among tests.
POSITION = -1
#: Most bits of the code for equality: few rows share one whose keys differ.
MOST_EQUAL_BITS = 32
#: Key of rows with NULL, which lie last.
_NOWHERE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
#: Bits of a key that are sorted by at a time.
_DIGIT = 11


@dataclass(frozen=True)
class Scale:
    """Narrow codes of one test, in the order of its codes.

    Parameters
    ----------
    test : int
        Number of the test; POSITION for positions of rows.
    base, shift : int
        The narrow code is ``(code - base) >> shift``, or the nearest one that has the bits.
    """

    test: int
    base: int = 0
    shift: int = 0


@dataclass(frozen=True)
class ZoneOrder:
    """The order of a slab's rows, and the keys of its zones.

    Parameters
    ----------
    hashed : tuple of int
        Numbers of the tests for equality.
    equal : Scale, optional
        Of the test for equality if there is one; codes of several are hashed together.
    equal_bits : int
        Bits at the top of each key, for equality; at most MOST_EQUAL_BITS.
    bits : int
        Bits of each key below these.
    scales : tuple of Scale
        Keys of zones, without those for equality; rows lie by the first one.
    null : int
        Code of NULL.
    """

    hashed: tuple[int, ...]
    equal: Scale | None
    equal_bits: int
    bits: int
    scales: tuple[Scale, ...]
    null: int

    #: As of a grid with one cell.
    cells, inner, keyed = 1, 1, False

    def tree(self, rows: int, ends: np.ndarray) -> ZoneTree:
        """The zones of slabs of ``rows`` rows each."""
        keys = len(self.scales)
        return ZoneTree(zone_levels(rows, keys), keys, self._placed, ends)

    def located(self, codes: Sequence[np.ndarray]) -> tuple[np.ndarray]:
        """Keys of window rows: uint64 of shape (n, number of scales)."""
        keys = np.empty((len(codes[0]), len(self.scales)), np.uint64)
        prefix = self._prefix(codes)
        for k, scale in enumerate(self.scales):
            self._write(keys, k, prefix, codes, scale)
        for test in (*self.hashed, *(scale.test for scale in self.scales)):
            if test != POSITION:
                keys[codes[test] == self.null, 0] = _NOWHERE
        return (keys,)

    def boxes(self, bounds: Sequence[np.ndarray]) -> ZoneBounds:
        """Bounds of stream tuples.

        Parameters
        ----------
        bounds : sequence of ndarray
            ``lo_0, hi_0, lo_1, ...``, codes of all tests; no range is empty.
        """
        ends = np.empty((len(bounds[0]), 2 * len(self.scales)), np.uint64)
        prefix = self._prefix(bounds[::2])
        for k, scale in enumerate(self.scales):
            for end in (0, 1):
                self._write(ends, 2 * k + end, prefix, bounds[end::2], scale)
        return ZoneBounds(ends)

    def sort(self, keys: np.ndarray, order: np.ndarray, ends: np.ndarray, rows: int) -> None:
        """Sort the rows of a slab, which has room for ``rows``, and write its zones.

        Parameters
        ----------
        keys : ndarray of uint64
            From :meth:`located`.
        order : ndarray of uint32, shape (n,)
            Gets the row at each place.
        ends : ndarray of uint64
            Gets the part of :attr:`~.device.zones.ZoneTree.ends` for this slab.
        """
        _sort(keys, order)
        _write_zones(keys, order, self._placed, ends, zone_levels(rows, len(self.scales)))

    @property
    def _placed(self) -> int:
        return next((k for k, scale in enumerate(self.scales) if scale.test == POSITION), -1)

    def _prefix(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Codes for equality, left of the bits of a number."""
        prefix = np.zeros(len(codes[0]), np.uint64)
        if self.equal is not None:
            only, scale = codes[self.equal.test], self.equal
            top = np.uint64((1 << self.equal_bits) - 1)
            shift = np.uint64(scale.shift)
            _write_key(prefix[:, np.newaxis], 0, prefix, only, np.uint64(scale.base), shift, top)
        elif self.hashed:
            _, prefix = parts_of(self.hashed, 0, self.null, codes)
            prefix >>= np.uint64(64 - self.equal_bits)
        return prefix << np.uint64(self.bits) if self.hashed else prefix

    def _write(
        self,
        keys: np.ndarray,
        column: int,
        prefix: np.ndarray,
        codes: Sequence[np.ndarray],
        scale: Scale,
    ) -> None:
        if scale.test == POSITION:
            keys[:, column] = prefix
            return
        top = np.uint64((1 << self.bits) - 2)  # all ones are no key
        numbers, base, shift = codes[scale.test], np.uint64(scale.base), np.uint64(scale.shift)
        _write_key(keys, column, prefix, numbers, base, shift, top)


@kept()
def _write_key(keys, column, prefix, codes, base, shift, top):
    for k in range(len(codes)):
        code = np.uint64(codes[k])
        number = min((code - base) >> shift, top) if code > base else np.uint64(0)
        keys[k, column] = prefix[k] | number


@kept()
def _sort(keys, order):
    """Sort rows by the first of their keys; rows of one key stay in their order."""
    rows = len(order)
    first, spare = keys[:, 0].copy(), np.empty(rows, np.uint64)
    other, counts = np.empty(rows, np.uint32), np.empty(1 << _DIGIT, np.int64)
    mask, differing = np.uint64((1 << _DIGIT) - 1), np.uint64(0)
    for k in range(rows):
        order[k] = k
        differing |= first[k] ^ first[0]
    by = order
    shift = np.uint64(0)
    while shift < np.uint64(64) and differing >> shift:
        if (differing >> shift) & mask:
            counts[:] = 0
            for k in range(rows):
                counts[(first[k] >> shift) & mask] += 1
            total = np.int64(0)
            for value in range(len(counts)):
                counts[value], total = total, total + counts[value]
            for k in range(rows):
                value = (first[k] >> shift) & mask
                place = counts[value]
                counts[value] = place + 1
                spare[place], other[place] = first[k], by[k]
            first, spare = spare, first
            by, other = other, by
        shift += np.uint64(_DIGIT)
    order[:] = by


@kept(zones)
def _write_zones(keys, order, placed, ends, levels):
    """Write the least and greatest keys of all zones of a slab."""
    width, leaf = keys.shape[1], len(levels) - 2
    size = 2 * FAN * width
    for at in range(0, len(ends), 2 * FAN):
        ends[at : at + FAN] = _NOWHERE
        ends[at + FAN : at + 2 * FAN] = 0
    for place in range(len(order)):
        row = order[place]
        if keys[row, 0] == _NOWHERE:
            continue
        block = place // BLOCK
        at = levels[leaf] + block // FAN * size + block % FAN
        for k in range(width):
            key = keys[row, k]
            if k == placed:
                key += np.uint64(row)
            ends[at] = min(ends[at], key)
            ends[at + FAN] = max(ends[at + FAN], key)
            at += 2 * FAN
    for level in range(leaf, 0, -1):
        for group in range((levels[level + 1] - levels[level]) // size):
            source = levels[level] + group * size
            at = levels[level - 1] + group // FAN * size + group % FAN
            for _ in range(width):
                ends[at] = ends[source : source + FAN].min()
                ends[at + FAN] = ends[source + FAN : source + 2 * FAN].max()
                at += 2 * FAN
                source += 2 * FAN
