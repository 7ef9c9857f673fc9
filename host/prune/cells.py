"""Cells: boxes of keys, numbered so that neighbours on the inner axis have neighbouring numbers.

Rows lie by cell; those of a cell by position, or by the hash of their key and then by position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kept_code import kept

from ..device.search import Boxes

#: Cell of rows with a NULL key: they match nothing.
NO_CELL = np.uint32(0xFFFF_FFFF)
#: An odd multiplier that spreads neighbouring codes over all of 64 bits.
_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)


@dataclass(frozen=True)
class Axis:
    """Buckets of one key, ascending with its codes.

    Parameters
    ----------
    test : int
        Number of the test whose codes these are.
    base, shift : int
        Entry of a code in ``table``: ``(code - base) >> shift``, or the nearest one.
    table : ndarray of uint32
        Bucket of each entry, never falling.
    buckets : int
    """

    test: int
    base: int
    shift: int
    table: np.ndarray
    buckets: int

    def add(self, cells: np.ndarray, codes: np.ndarray, null: int) -> None:
        """Refine cells by this axis."""
        args = (np.uint64(self.base), np.uint64(self.shift), self.table, np.uint32(self.buckets))
        _add_axis(cells, codes, *args, np.uint64(null))


@dataclass(frozen=True)
class Grid:
    """The cells of a search.

    Parameters
    ----------
    hashed : tuple of int
        Tests for equality, whose codes together choose one of ``2 ** hash_bits`` parts.
    hash_bits : int
    axes : tuple of Axis
        At most two; the last one is the inner one.
    null : int
        Code of NULL.
    keyed : bool
        Whether the rows of a cell lie by the hash of those equalities, and then by position.
    """

    hashed: tuple[int, ...]
    hash_bits: int
    axes: tuple[Axis, ...]
    null: int
    keyed: bool = False

    @property
    def inner(self) -> int:
        return self.axes[-1].buckets if self.axes else 1

    @property
    def outer(self) -> int:
        """Outer index of the cells: part of the hash, then bucket of the first of two axes."""
        return (1 << self.hash_bits) * (self.axes[0].buckets if len(self.axes) > 1 else 1)

    @property
    def cells(self) -> int:
        return self.outer * self.inner

    def cells_of(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Cells of window rows: uint32, NO_CELL where a key is NULL."""
        return self.located(codes)[0]

    def located(self, codes: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Cells of window rows, and hashes of their keys: uint64, none if the grid has no keys."""
        cells, hashes = parts_of(self.hashed, self.hash_bits, self.null, codes)
        for axis in self.axes:
            axis.add(cells, codes[axis.test], self.null)
        return cells, hashes if self.keyed else hashes[:0]

    def boxes(self, bounds: Sequence[np.ndarray]) -> Boxes:
        """Cells that stream tuples visit.

        Parameters
        ----------
        bounds : sequence of ndarray
            ``lo_0, hi_0, lo_1, ...``, codes of all tests; no range is empty.
        """
        part, hashes = parts_of(self.hashed, self.hash_bits, self.null, bounds[::2])
        outer = part, part
        if len(self.axes) > 1:
            outer = part, part.copy()
            self._both(self.axes[0], outer, bounds)
        inner = np.zeros(len(part), np.uint32), np.zeros(len(part), np.uint32)
        if self.axes:
            self._both(self.axes[-1], inner, bounds)
        return Boxes(*outer, *inner, hashes if self.keyed else None)

    def _both(
        self, axis: Axis, ends: tuple[np.ndarray, np.ndarray], bounds: Sequence[np.ndarray]
    ) -> None:
        for end, codes in zip(ends, bounds[2 * axis.test : 2 * axis.test + 2], strict=True):
            axis.add(end, codes, self.null)


def parts_of(
    hashed: Sequence[int], bits: int, null: int, codes: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """One of ``2 ** bits`` parts for the codes of some tests, NO_CELL for NULL; and their hashes.

    The parts ascend with the hashes. Without tests there are none.
    """
    rows = len(codes[0])
    cells = np.zeros(rows, np.uint32)
    hashes = np.zeros(rows if hashed else 0, np.uint64)
    if hashed:
        for test in hashed:
            _add_hash(hashes, cells, codes[test], np.uint64(null))
        _take_part(hashes, cells, np.uint64(64 - bits))
    return cells, hashes


@kept()
def _add_axis(cells, codes, base, shift, table, buckets, null):
    last = np.uint64(len(table) - 1)
    for k in range(len(codes)):
        code = np.uint64(codes[k])
        if code == null or cells[k] == NO_CELL:
            cells[k] = NO_CELL
            continue
        at = min((code - base) >> shift, last) if code > base else np.uint64(0)
        cells[k] = cells[k] * buckets + table[at]


@kept()
def _add_hash(hashes, cells, codes, null):
    for k in range(len(codes)):
        code = np.uint64(codes[k])
        if code == null:
            cells[k] = NO_CELL
        mixed = (hashes[k] ^ code) * _SPREAD
        hashes[k] = mixed ^ (mixed >> np.uint64(32))


@kept()
def _take_part(hashes, cells, shift):
    """Cells by the highest bits of hashes, once those are spread; ``shift`` is 64 for one part."""
    for k in range(len(cells)):
        hashes[k] *= _SPREAD
        if cells[k] != NO_CELL:
            part = np.uint64(0)
            if shift < np.uint64(64):
                part = hashes[k] >> shift
            cells[k] = np.uint32(part)


@kept()
def sort_by_cell(cells, starts, order):
    """Sort the rows of a slab by cell; rows of one cell stay in their order.

    Parameters
    ----------
    cells : ndarray of uint32, shape (n,)
    starts : ndarray of uint32, shape (number of cells + 2,)
        Gets the first place of each cell, then that of rows in NO_CELL, then n.
    order : ndarray of uint32, shape (n,)
        Gets the row at each place.
    """
    last = len(starts) - 2
    starts[:] = 0
    # Counts lie two entries further, so that filling moves each entry to where it belongs.
    for k in range(len(cells)):
        cell = min(np.int64(cells[k]), last)
        if cell + 2 < len(starts):
            starts[cell + 2] += 1
    total = np.uint32(0)
    for c in range(2, len(starts)):
        total += starts[c]
        starts[c] = total
    outside = np.int64(total)
    for k in range(len(cells)):
        cell = np.int64(cells[k])
        if cell < last:
            place = starts[cell + 1]
            starts[cell + 1] = place + 1
            order[place] = k
        else:
            order[outside] = k
            outside += 1
    starts[last + 1] = len(cells)


@kept()
def take(out, column, order):
    """Write the items of a column in an order."""
    for k in range(len(order)):
        out[k] = column[order[k]]


#: Rows that are sorted by insertion.
_FEW = 24
#: Bits of a hash that are sorted by at a time, and their values.
_DIGIT = 8
_VALUES = 1 << _DIGIT
#: Stretches that wait: fewer than all values of each digit.
_WAITING = _VALUES * (64 // _DIGIT)


def highest_digit(hash_bits: int) -> int:
    """Lowest bit of the highest digit in which hashes of one part of a hash may differ."""
    return max(64 - hash_bits - _DIGIT, 0)


@kept()
def sort_keys(hashes, starts, low, high, order, sorted_hashes, digit):
    """Sort the rows of the cells ``[low, high)`` by hash; rows of one hash stay in their order.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (n,)
        By row.
    starts, order
        As :func:`.cells.sort_by_cell` writes them.
    sorted_hashes : ndarray of uint64, shape (n,)
        Gets the hash at each place.
    digit : int
        From :func:`highest_digit`.
    """
    waiting = np.empty((_WAITING, 3), np.int64)
    counts = np.empty(_VALUES + 1, np.int64)
    spare_hashes, spare_order = np.empty(0, np.uint64), np.empty(0, np.uint32)
    for cell in range(low, high):
        begin, end = np.int64(starts[cell]), np.int64(starts[cell + 1])
        if begin == end:
            continue
        is_mixed = False
        first = hashes[order[begin]]
        for k in range(begin, end):
            current = hashes[order[k]]
            sorted_hashes[k] = current
            is_mixed |= current != first
        if not is_mixed:
            continue
        if end - begin <= _FEW:
            _insert(sorted_hashes, order, begin, end)
            continue
        if end - begin > len(spare_order):
            size = 2 * (end - begin)
            spare_hashes, spare_order = np.empty(size, np.uint64), np.empty(size, np.uint32)
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = begin, end, digit
        left = 1
        while left:
            left -= 1
            a, b, bit = waiting[left]
            if b - a <= _FEW:
                _insert(sorted_hashes, order, a, b)
                continue
            _scatter(sorted_hashes, order, a, b, bit, counts, spare_hashes, spare_order)
            if bit == 0:
                continue
            at = np.int64(0)
            for value in range(_VALUES):
                until = counts[value]
                if until - at > 1 and _is_mixed(sorted_hashes, a + at, a + until):
                    waiting[left, 0], waiting[left, 1] = a + at, a + until
                    waiting[left, 2] = max(bit - _DIGIT, 0)
                    left += 1
                at = until


@kept()
def _scatter(hashes, order, a, b, bit, counts, spare_hashes, spare_order):
    """Sort places by the digit from a bit on; ``counts`` gets the end of each of its values."""
    mask = np.uint64(_VALUES - 1)
    counts[:] = 0
    for k in range(a, b):
        counts[((hashes[k] >> np.uint64(bit)) & mask) + np.uint64(1)] += 1
        spare_hashes[k - a], spare_order[k - a] = hashes[k], order[k]
    for value in range(1, _VALUES):
        counts[value] += counts[value - 1]
    for k in range(b - a):
        value = (spare_hashes[k] >> np.uint64(bit)) & mask
        at = a + counts[value]
        hashes[at], order[at] = spare_hashes[k], spare_order[k]
        counts[value] += 1


@kept()
def _insert(hashes, order, a, b):
    for k in range(a + 1, b):
        current, row = hashes[k], order[k]
        at = k
        while at > a and hashes[at - 1] > current:
            hashes[at], order[at] = hashes[at - 1], order[at - 1]
            at -= 1
        hashes[at], order[at] = current, row


@kept()
def _is_mixed(hashes, a, b):
    k = a + 1
    while k < b and hashes[k] == hashes[a]:
        k += 1
    return k < b
