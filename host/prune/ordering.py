"""Slabs of a window run in the order of cells; once made, a slab never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from ..device.search import MORE_STARTS, SPARE_ROWS, OrderedRows
from ..windows.run import next_number
from .cells import Grid, sort_by_cell, take

_T = TypeVar("_T")

#: Fewest rows of a single slab for several threads.
LEAST_SHARED = 1 << 17

#: Device columns of the positions ``[low, high)``, and the codes of all tests.
Reader = Callable[[int, int], tuple[Sequence[np.ndarray], Sequence[np.ndarray]]]


class Ordering:
    """Consecutive slabs of equal length, which begin at a multiple of it.

    Parameters
    ----------
    rows : int
        Rows of a slab.
    first : int
        Position of the first row.
    grid : Grid
        Of all slabs.
    """

    def __init__(self, rows: int, first: int, grid: Grid) -> None:
        self.rows = rows
        self.first = self.end = first
        self.grid = grid
        #: Number of the run that its rows are, in this order.
        self.number = next_number()
        self._order = np.empty(0, np.uint32)
        self._starts = np.empty(0, np.uint32)
        self._columns: list[np.ndarray] = []

    @property
    def nbytes(self) -> int:
        """Bytes of main memory."""
        return sum(own.nbytes for own in (self._order, self._starts, *self._columns))

    def extend(self, end: int, read: Reader, threads: int, *, most: int = 0) -> None:
        """Add the slabs up to a position.

        Parameters
        ----------
        end : int
            The last slab may be shorter than the others only if none follows ever.
        most : int
            Position that the slabs will reach, if that is known.
        """
        if end <= self.end:
            return
        lows = range(self.end, end, self.rows)
        head = read(lows[0], min(lows[0] + self.rows, end))
        self._reserve(max(end, most) - self.first, [column.dtype for column in head[0]])

        def fill(low: int, parts: int = 1) -> None:
            high = min(low + self.rows, end)
            self._fill(low, high, *(head if low == lows[0] else read(low, high)), parts)

        if len(lows) == 1:
            fill(lows[0], threads if end - lows[0] >= LEAST_SHARED else 1)
        else:
            _each(fill, lows, threads)
        self.end = end

    def restart(self, first: int) -> None:
        """Forget everything; the next slab begins at a position."""
        self.first = self.end = first
        self._order, self._starts, self._columns = self._order[:0], self._starts[:0], []

    def drop(self, before: int) -> None:
        """Forget the slabs that end before a position, or there."""
        slabs = min(max(before - self.first, 0), self.end - self.first) // self.rows
        if slabs:
            count = slabs * self.rows
            # Views: memory is given back when they move, in :meth:`_reserve`.
            self._order = self._order[count:]
            self._starts = self._starts[slabs * self._directory :]
            self._columns = [column[count:] for column in self._columns]
            self.first += count

    def ordered(self) -> OrderedRows:
        """All rows."""
        count = self.end - self.first
        slabs = -(-count // self.rows)
        return OrderedRows(
            self.first,
            self.rows,
            count,
            self.grid.cells,
            self.grid.inner,
            self._order[:count],
            self._starts[: slabs * self._directory],
            self._columns,
        )

    @property
    def _directory(self) -> int:
        return self.grid.cells + MORE_STARTS

    def _reserve(self, count: int, dtypes: Sequence[np.dtype]) -> None:
        """Make room for so many rows in all."""
        if not self._columns:
            self._columns = [np.empty(0, dtype) for dtype in dtypes]
        if count + SPARE_ROWS <= len(self._columns[0]) and count <= len(self._order):
            return
        held = self.end - self.first
        room = count if not held else max(count, held + held // 4)
        slabs = -(-room // self.rows)

        def moved(own: np.ndarray, used: int, size: int) -> np.ndarray:
            grown = np.empty(size, own.dtype)
            grown[:used] = own[:used]
            return grown

        self._order = moved(self._order, held, room)
        used = -(-held // self.rows) * self._directory
        self._starts = moved(self._starts, used, slabs * self._directory)
        self._columns = [moved(column, held, room + SPARE_ROWS) for column in self._columns]

    def _fill(
        self,
        low: int,
        high: int,
        columns: Sequence[np.ndarray],
        codes: Sequence[np.ndarray],
        parts: int,
    ) -> None:
        """Sort a slab; so many threads work on it."""
        rows = high - low
        begin, end = low - self.first, high - self.first
        order = self._order[begin:end]
        directory = begin // self.rows * self._directory
        starts = self._starts[directory : directory + self._directory]
        cells = np.empty(rows, np.uint32)
        shares = [slice(rows * k // parts, rows * (k + 1) // parts) for k in range(parts)]

        def locate(share: slice) -> None:
            cells[share] = self.grid.of([own[share] for own in codes])

        def gather(share: slice) -> None:
            for own, column in zip(self._columns, columns, strict=True):
                if column.dtype.hasobject:  # no machine words
                    own[begin:end][share] = column[order[share]]
                else:
                    take(own[begin:end][share], column, order[share])

        _each(locate, shares, parts)
        sort_by_cell(cells, starts, order)
        _each(gather, shares, parts)


def _each(work: Callable[[_T], None], items: Iterable[_T], threads: int) -> None:
    """Do some work for each item, in several threads if there are."""
    if threads == 1:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(threads, "penstock-order") as pool:
        for _ in pool.map(work, items):
            pass
