"""Search tasks: range joins over window rows in the order (cell, key, position).

The keys of a window are cut into boxes, the *cells*. A tuple can only match rows of the cells that
its own bounds overlap, so in each *slab* of the window it visits those, and in each of them the
rows of its range. Where equalities choose the cell, the rows of a cell may lie by the hash of
their key, and then by position: a tuple visits those of its own key alone. What a device tests is
then a few short ranges per tuple. Such a task brings its
rows with it, as a window join does: :meth:`.base.Kernel.submit` takes None for the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.kept_code import kept
from penstock.program import Mode

from . import intrinsics, zones
from .base import Pause
from .cut import TASKS_PER_LANE, Cutting, Piece
from .intrinsics import ask
from .zones import NO_ZONES, ZoneBounds, ZoneTree, next_zones, zone_arguments

#: Rows that may be read beyond the last one of a column: whole vectors are loaded.
SPARE_ROWS = 64
#: Evaluations of a range join that take as long as a task should at least: a millisecond.
LEAST_TASK = 1 << 24
#: Times as long as tasks are where each lane has several.
LONGER = 4
#: Most tuples of a task.
MOST_TUPLES = 1 << 14
#: Hashes of rows and tuples without keys.
_NO_HASHES = np.zeros(0, np.uint64)
#: Entries of a slab's directory beside those of its cells: one for rows that lie in no cell,
#: and the end.
MORE_STARTS = 2
#: Most rows of neighbouring cells whose positions are compared only where they match.
MOST_UNCUT = 128
#: Tuples between the one whose rows are asked for and the one that is searched for.
AHEAD = 8

# Places of what compiled loops need in :attr:`RangeWalk.state`.
START, STOP, ORDER, SIZES, ROW, LOW, HIGH, WHOLE = 4, 5, 7, 9, 11, 12, 13, 14


@dataclass(frozen=True, eq=False)
class OrderedRows:
    """Window rows in the order (cell, position) or (cell, key, position), slab by slab.

    Parameters
    ----------
    first : int
        Position of the first row.
    rows : int
        Rows of a slab; the last one may have fewer.
    count : int
        Rows of all slabs.
    cells, inner : int
        Cells of a slab, and of its innermost axis: those are neighbours in the order.
    order : ndarray of uint32, shape (count,)
        Position of the row at each place, counted from its slab's first position.
    starts : ndarray of uint32, shape (slabs * (cells + MORE_STARTS),)
        First place of each cell, counted from its slab's first place.
    columns : sequence of ndarray
        Window columns of the program in this order, with SPARE_ROWS more.
    hashes : ndarray of uint64, shape (count,), optional
        Hash of the key at each place, ascending in each cell; None if cells are in the order of
        positions.
    zones : ZoneTree, optional
        Rows with zones lie in one cell, by the zones' first key.
    """

    first: int
    rows: int
    count: int
    cells: int
    inner: int
    order: np.ndarray
    starts: np.ndarray
    columns: Sequence[np.ndarray]
    hashes: np.ndarray | None = None
    zones: ZoneTree | None = None

    @property
    def end(self) -> int:
        """Position after the last row."""
        return self.first + self.count

    @property
    def nbytes(self) -> int:
        """Bytes of order, hashes, zones and directory."""
        hashes = 0 if self.hashes is None else self.hashes.nbytes
        ends = 0 if self.zones is None else self.zones.ends.nbytes
        return self.order.nbytes + self.starts.nbytes + hashes + ends


@dataclass(frozen=True, eq=False)
class Boxes:
    """The cells that each tuple visits: a range on the outer and one on the inner axis.

    All are uint32 of shape (n,); both ends belong to the range. Outer index o and inner index k
    name cell ``o * inner + k``. Where the rows have hashes, ``key`` is the hash of each tuple's
    key, uint64 of shape (n,).
    """

    outer_low: np.ndarray
    outer_high: np.ndarray
    inner_low: np.ndarray
    inner_high: np.ndarray
    key: np.ndarray | None = None

    def pick(self, rows: np.ndarray) -> Boxes:
        """The boxes of some tuples."""
        return Boxes(*(array[rows] for array in self.arrays))

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        bounds = self.outer_low, self.outer_high, self.inner_low, self.inner_high
        return bounds if self.key is None else (*bounds, self.key)


@dataclass(frozen=True, eq=False)
class SearchTask:
    """A range join over rows in the order of cells.

    Parameters
    ----------
    stream, mode
        As for :class:`~.base.Task`.
    start, end : ndarray of int64, shape (n,)
        Range of positions per tuple, in any order.
    room : int
        As for :class:`~.base.Task`; at least SPARE_ROWS.
    ordered : OrderedRows
    boxes : Boxes or ZoneBounds
        Bounds if the rows have zones.
    floor : ndarray of int64, shape (n,), optional
        Places below it are done, per tuple.

    Notes
    -----
    A result's ``j`` counts from ``ordered.first``, and so do places. A tuple meets places in
    ascending order. A pause ``(i, i + 1, p)`` says: tuples before i are complete, tuple i is
    complete below place p, later ones are untouched.
    """

    stream: Sequence[np.ndarray]
    start: np.ndarray
    end: np.ndarray
    room: int
    ordered: OrderedRows
    boxes: Boxes | ZoneBounds
    mode: Mode = Mode.PAIRS
    floor: np.ndarray | None = None

    @property
    def rows(self) -> int:
        return len(self.start)


@dataclass(frozen=True, eq=False)
class LateSearch:
    """A search task that is made in the thread that runs it.

    Parameters
    ----------
    made : callable
        Makes the task; it may be called again after a failure.
    rows : int
        Stream tuples.
    room, mode
        As for :class:`SearchTask`.
    """

    made: Callable[[], SearchTask]
    rows: int
    room: int
    mode: Mode


AnySearch = SearchTask | LateSearch


def empty_search(stream: Sequence[np.dtype], window: Sequence[np.dtype], mode: Mode) -> SearchTask:
    """Return a search of no tuples in no rows, for columns of some dtypes."""
    none, some = np.zeros(0, np.uint32), np.zeros(0, np.int64)
    columns = [np.zeros(SPARE_ROWS, dtype) for dtype in window]
    starts = np.zeros(1 + MORE_STARTS, np.uint32)
    ordered = OrderedRows(0, 1, 0, 1, 1, none, starts, columns)
    tuples = [np.zeros(0, dtype) for dtype in stream]
    boxes = Boxes(none, none, none, none)
    return SearchTask(tuples, some, some, SPARE_ROWS, ordered, boxes, mode)


@dataclass(frozen=True)
class SearchPiece(Piece):
    """Tuples of the caller to search for, each once, with their ranges in any order.

    Parameters
    ----------
    cost : float
        Expected time of a tuple, in evaluations of a range join.
    admitted : int
        Pairs that the window admits, of tuples whose search has not begun.
    floor : ndarray of int64, shape (n,), optional
        As for :class:`SearchTask`, but as positions: counted from 0 as these are.
    """

    cost: float
    admitted: int
    floor: np.ndarray | None = None

    @cached_property
    def evaluations(self) -> int:
        return int(len(self.rows) * self.cost) + 1

    def tasks(self, cutting: Cutting) -> Iterator[SearchPiece]:
        """Cut into one part per task: few enough for the lanes to end together."""
        rows = len(self.rows)
        least = int(LEAST_TASK / self.cost) + 1
        # Around a task its host works for a millisecond: longer ones where each lane has two.
        longer = min(LONGER * least, -(-rows // (2 * cutting.lanes)))
        size = max(-(-rows // (cutting.lanes * TASKS_PER_LANE)), least, longer)
        size = min(size, MOST_TUPLES)
        for low in range(0, rows, size):
            part = self.part(low, low + size)
            yield replace(self, **vars(part), admitted=part.evaluations)

    def remaining(self, pause: Pause) -> list[Piece]:
        floor = np.zeros(len(self.rows), np.int64) if self.floor is None else self.floor.copy()
        floor[pause.i0] = pause.p
        part = self.part(pause.i0, len(self.rows))
        return [replace(self, **vars(part), admitted=0, floor=floor[pause.i0 :])]


class RangeWalk:
    """The ranges of places that the tuples of a search visit, some at a time.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n,)
    apart : bool
        Whether to give ranges of single cells, in which all rows are in the tuple's range.
    most : int
        Ranges to give at a time.
    """

    def __init__(
        self,
        ordered: OrderedRows,
        boxes: Boxes | ZoneBounds,
        start: np.ndarray,
        end: np.ndarray,
        floor: np.ndarray | None,
        *,
        apart: bool = False,
        most: int = 1024,
    ) -> None:
        # Read-only arrays, and those with gaps, are other types to Numba: those are copied.
        floors = np.zeros(len(start), np.int64) if floor is None else floor
        if ordered.zones is not None and isinstance(boxes, ZoneBounds):
            self._zones, placed = zone_arguments(ordered.zones, boxes), ordered.zones.placed
            boxes = Boxes(*(np.zeros(0, np.uint32),) * 4)
        else:
            assert isinstance(boxes, Boxes)
            self._zones, placed = NO_ZONES, -1
        self._tuples = (
            *(np.require(array, np.uint32, ["C", "W"]) for array in boxes.arrays[:4]),
            *(np.require(array, np.int64, ["C", "W"]) for array in (start, end, floors)),
        )
        self._ordered = (ordered.order, ordered.starts)
        keyed = ordered.hashes is not None and boxes.key is not None
        keys = (boxes.key, ordered.hashes) if keyed else (_NO_HASHES, _NO_HASHES)
        self._keys = tuple(np.require(array, np.uint64, ["C", "W"]) for array in keys)
        sizes = ordered.first, ordered.rows, ordered.count, ordered.cells, ordered.inner
        self._sizes = np.array([*sizes, apart, keyed, placed])
        self._state = np.array([0, -1, -1, -1])
        #: Tuple, first place and end of each range, and whether all its rows are in the tuple's
        #: range of positions; what :meth:`next` has written.
        self.row, self.whole = np.empty(most, np.uint32), np.empty(most, np.bool_)
        self.low, self.high = np.empty(most, np.int64), np.empty(most, np.int64)

    @property
    def state(self) -> tuple[np.ndarray, ...]:
        """The arguments of :func:`next_ranges`, for compiled loops that call it themselves."""
        ranges = self.row, self.low, self.high, self.whole
        ordered = *self._ordered, self._sizes, self._state
        return *self._tuples, *ordered, *ranges, *self._keys, *self._zones

    def next(self) -> int:
        """Write the next ranges, by tuple and then by place; return their number, 0 at the end."""
        return next_ranges(*self.state)


@kept(intrinsics, zones)
def next_ranges(
    outer_low, outer_high, inner_low, inner_high, start, end, floor, order, starts, sizes, state,
    row, low, high, whole, key, hashes, bounds, ends, levels, walk,
):  # fmt: skip
    """Write ranges that are not empty, as many as fit; ``state`` says where to go on."""
    if len(levels):
        return next_zones(
            start, end, floor, sizes, state, row, low, high, whole, bounds, ends, levels, walk
        )
    first, rows, count, cells, inner, apart, keyed, _ = sizes
    i, slab, outer, at = state
    n = near = 0
    while i < len(start):
        s, e = max(start[i] - first, 0), min(end[i] - first, count)
        if slab < 0:
            if not near * rows <= s < (near + 1) * rows:
                near = s // rows  # a division takes as long as the rest of a short range
            slab = np.int64(near)
            if keyed and i + AHEAD < len(start):
                later, near_slab = outer_low[i + AHEAD] * inner + inner_low[i + AHEAD], slab
                # A tuple without a key has no cell.
                while later < cells and near_slab < slab + 2 and near_slab * rows < e:
                    of_cell = near_slab * (cells + MORE_STARTS) + later
                    place = near_slab * rows + np.int64(starts[of_cell])
                    ask(hashes, place)
                    ask(order, place)
                    near_slab += 1
        while slab * rows < e and s < e:
            base = slab * rows
            top = min(base + rows, count)
            if outer < 0:
                outer = np.int64(outer_low[i])
            while outer <= outer_high[i]:
                cell = slab * (cells + MORE_STARTS) + outer * inner
                is_whole = s <= base and e >= top
                if at < 0:
                    at = np.int64(inner_low[i])
                while at <= inner_high[i]:
                    if n == len(row):
                        state[0], state[1], state[2], state[3] = i, slab, outer, at
                        return n
                    # Rows of neighbouring cells follow each other, but not in the order of time.
                    last = at if apart or keyed else np.int64(inner_high[i])
                    a, b = base + starts[cell + at], base + starts[cell + last + 1]
                    is_in = is_whole
                    if keyed:
                        if a < b and (hashes[a] != key[i] or hashes[b - 1] != key[i]):
                            a = _first_at(hashes, a, b, key[i])
                            b = _first_beyond(hashes, a, b, key[i])
                        if not is_whole and a < b:
                            b = _first_at(order, a, b, e - base)
                            a = _first_at(order, a, b, s - base)
                        is_in = True
                    elif not is_whole and (apart or b - a > MOST_UNCUT):
                        last = at
                        b = base + starts[cell + last + 1]
                        b = _first_at(order, a, b, e - base)
                        a = _first_at(order, a, b, s - base)
                        is_in = True
                    a = max(a, floor[i])
                    if a < b:
                        row[n], low[n], high[n], whole[n] = i, a, b, is_in
                        n += 1
                    at = last + 1
                at = np.int64(-1)
                outer += 1
            outer = np.int64(-1)
            slab += 1
        slab = np.int64(-1)
        i += 1
    state[0] = i
    return n


@kept()
def _first_beyond(hashes, low, high, key):
    """The first of the places ``[low, high)`` with a larger hash, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if hashes[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@kept()
def _first_at(values, low, high, least):
    """The first of the places ``[low, high)`` with this value or a larger one, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low
