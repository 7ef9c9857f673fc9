"""Slabs of a window run in the order of cells; once read, a slab never changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

import numpy as np

from ..device.search import MORE_STARTS, SPARE_ROWS, OrderedRows
from ..device.zones import zone_levels
from ..windows.run import next_number
from .cells import Grid, highest_digit, sort_by_cell, sort_keys, take
from .threads import each
from .zones import ZoneOrder

#: Fewest rows to sort for several threads.
LEAST_SHARED = 1 << 17

#: Device columns of the positions ``[low, high)``, and the codes of all tests.
Reader = Callable[[int, int], tuple[Sequence[np.ndarray], Sequence[np.ndarray]]]


class SlabOrdering:
    """Consecutive slabs of equal length; the last one may be incomplete.

    Parameters
    ----------
    rows : int
        Rows of a slab.
    first : int
        Position of the first row.
    grid : Grid or ZoneOrder
        Of all slabs.
    """

    def __init__(self, rows: int, first: int, grid: Grid | ZoneOrder) -> None:
        self.rows = rows
        self.first = self.end = first
        self.grid = grid
        #: Number of the run that its rows are, in this order.
        self.number = next_number()
        self._order = np.empty(0, np.uint32)
        self._starts = np.empty(0, np.uint32)
        #: Hash of the key at each place, if the grid has keys.
        self._hashes = np.empty(0, np.uint64)
        #: Zones, if the grid is an order with zones.
        self._ends = np.empty(0, np.uint64)
        self._columns: list[np.ndarray] = []
        #: Columns of the incomplete slab and the keys to sort it by, in the order of positions.
        self._youngest: tuple[list[np.ndarray], Sequence[np.ndarray]] | None = None
        #: What :meth:`ordered` has given since the last rows came, and is still in use.
        self._readers: weakref.WeakSet[OrderedRows] = weakref.WeakSet()

    @property
    def complete(self) -> int:
        """Position after the last complete slab."""
        return self.end - (self.end - self.first) % self.rows

    @property
    def copied(self) -> int:
        """Complete rows to copy before the incomplete slab is sorted again."""
        return self.complete - self.first if self._is_read else 0

    @property
    def _is_read(self) -> bool:
        """Whether somebody may still read the incomplete slab."""
        return self.complete < self.end and len(self._readers) > 0

    @property
    def nbytes(self) -> int:
        """Bytes of main memory."""
        columns, located = self._youngest or ([], [])
        ordered = self._order, self._starts, self._hashes, self._ends, *self._columns
        return sum(array.nbytes for array in (*ordered, *columns, *located))

    def extend(self, end: int, read: Reader, threads: int, *, most: int = 0) -> None:
        """Add the rows up to a position; an incomplete slab is sorted again.

        Parameters
        ----------
        most : int
            Position that the slabs will reach, if that is known.
        """
        if end <= self.end:
            return
        begin = self.complete
        lows = range(begin, end, self.rows)
        youngest, self._youngest = self._youngest, None
        head = read(begin if youngest is None else self.end, min(begin + self.rows, end))
        is_read = self._is_read
        dtypes = [column.dtype for column in head[0]]
        self._reserve(begin - self.first, max(end, most) - self.first, dtypes, moves=is_read)

        def fill(low: int, parts: int = 1) -> None:
            high = min(low + self.rows, end)
            columns, codes = head if low == begin else read(low, high)
            located = self._located(codes, parts)
            if youngest is not None and low == begin:
                columns = [np.concatenate(both) for both in zip(youngest[0], columns, strict=True)]
                located = [np.concatenate(both) for both in zip(youngest[1], located, strict=True)]
            self._fill(low, columns, located, parts)
            if high - low < self.rows and end != most:
                self._youngest = list(columns), located

        if end - begin < LEAST_SHARED:
            threads = 1
        if len(lows) == 1:
            fill(begin, threads)
        else:
            each(fill, lows, threads)
        self.end = end
        self._readers.clear()

    def restart(self, first: int) -> None:
        """Forget everything; the next slab begins at a position."""
        self.first = self.end = first
        self._order, self._starts, self._columns = self._order[:0], self._starts[:0], []
        self._hashes, self._ends = self._hashes[:0], self._ends[:0]
        self._youngest = None
        self._readers.clear()

    def drop(self, before: int) -> None:
        """Forget the complete slabs that end before a position, or there."""
        slabs = min(max(before - self.first, 0), self.end - self.first) // self.rows
        if slabs:
            count = slabs * self.rows
            # Views: memory is given back when they move, in :meth:`_reserve`.
            self._order = self._order[count:]
            self._hashes = self._hashes[count:]
            self._starts = self._starts[slabs * self._directory :]
            self._ends = self._ends[slabs * self._zones :]
            self._columns = [column[count:] for column in self._columns]
            self.first += count

    def ordered(self) -> OrderedRows:
        """All rows."""
        count = self.end - self.first
        slabs = -(-count // self.rows)
        zones = None
        if isinstance(self.grid, ZoneOrder):
            zones = self.grid.tree(self.rows, self._ends[: slabs * self._zones])
        rows = OrderedRows(
            self.first,
            self.rows,
            count,
            self.grid.cells,
            self.grid.inner,
            self._order[:count],
            self._starts[: slabs * self._directory],
            self._columns,
            self._hashes[:count] if self.grid.keyed else None,
            zones,
        )
        self._readers.add(rows)
        return rows

    @property
    def _directory(self) -> int:
        return self.grid.cells + MORE_STARTS

    @property
    def _zones(self) -> int:
        """Entries of a slab's zones."""
        if not isinstance(self.grid, ZoneOrder):
            return 0
        return int(zone_levels(self.rows, len(self.grid.scales))[-1])

    def _reserve(self, held: int, count: int, dtypes: Sequence[np.dtype], *, moves: bool) -> None:
        """Make room for ``count`` rows in all; the first ``held`` stay.

        With ``moves``, in new memory even if the old one has room, since it is being read.
        """
        if not self._columns:
            self._columns = [np.empty(0, dtype) for dtype in dtypes]
        is_enough = count + SPARE_ROWS <= len(self._columns[0]) and count <= len(self._order)
        if is_enough and not moves:
            return
        room = count if not held else max(count, 2 * held)
        slabs = -(-room // self.rows)

        def moved(array: np.ndarray, used: int, size: int) -> np.ndarray:
            grown = np.empty(size, array.dtype)
            grown[:used] = array[:used]
            return grown

        self._order = moved(self._order, held, room)
        used = held // self.rows * self._directory
        self._starts = moved(self._starts, used, slabs * self._directory)
        self._ends = moved(self._ends, held // self.rows * self._zones, slabs * self._zones)
        if self.grid.keyed:
            self._hashes = moved(self._hashes, held, room)
        self._columns = [moved(column, held, room + SPARE_ROWS) for column in self._columns]

    def _located(self, codes: Sequence[np.ndarray], parts: int) -> Sequence[np.ndarray]:
        """Compute keys to sort some rows by; so many threads work on it."""
        if parts == 1:
            return self.grid.located(codes)
        shares = _shares(len(codes[0]), parts)
        located: list[Sequence[np.ndarray]] = [()] * parts

        def locate(part: int) -> None:
            located[part] = self.grid.located([column[shares[part]] for column in codes])

        each(locate, range(parts), parts)
        return [np.concatenate(each) for each in zip(*located, strict=True)]

    def _fill(
        self,
        low: int,
        columns: Sequence[np.ndarray],
        located: Sequence[np.ndarray],
        parts: int,
    ) -> None:
        """Sort a slab; so many threads work on it."""
        begin, count = low - self.first, len(located[0])
        end = begin + count
        order = self._order[begin:end]
        slab = begin // self.rows
        starts = self._starts[slab * self._directory : (slab + 1) * self._directory]

        def gather(share: slice) -> None:
            for target, column in zip(self._columns, columns, strict=True):
                if column.dtype.hasobject:  # no machine words
                    target[begin:end][share] = column[order[share]]
                else:
                    take(target[begin:end][share], column, order[share])

        if isinstance(self.grid, ZoneOrder):
            ends = self._ends[slab * self._zones : (slab + 1) * self._zones]
            self.grid.sort(located[0], order, ends, self.rows)
        else:
            self._sort(self.grid, located, begin, order, starts, parts)
        each(gather, _shares(count, parts), parts)

    def _sort(
        self,
        grid: Grid,
        located: Sequence[np.ndarray],
        begin: int,
        order: np.ndarray,
        starts: np.ndarray,
        parts: int,
    ) -> None:
        """Sort the rows of a slab by cell."""
        cells, hashes = located
        sort_by_cell(cells, starts, order)
        if not grid.keyed:
            return
        digit, sorted_hashes = highest_digit(grid.hash_bits), self._hashes[begin:]

        def sort(share: slice) -> None:
            sort_keys(hashes, starts, share.start, share.stop, order, sorted_hashes, digit)

        each(sort, _shares(grid.cells, parts), parts)


def _shares(rows: int, parts: int) -> list[slice]:
    return [slice(rows * k // parts, rows * (k + 1) // parts) for k in range(parts)]
