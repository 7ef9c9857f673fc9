"""Orders the rows of a run by cell, and splits a probe into ranges to search and to scan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..device.cut import Piece, concat
from ..device.search import Boxes, OrderedRows
from ..device.zones import ZoneBounds
from ..keys.prepare import Layout
from ..windows.run import Snapshot
from .cells import Grid
from .choice import SORT_NS, GridChoice
from .chooser import Chooser, SearchKeys
from .costed import KIND
from .ordering import SlabOrdering
from .parts import OrderedRun, Part, PrunedRanges, expanded, searched
from .zones import ZoneOrder

#: Most probes without an attempt before the next one.
MOST_SKIPPED = 64
#: Probes that are searched for after such a look.
TRUSTED = 8
#: Times of what was expected that an order may take before others are compared with it.
WRONG = 2.0
#: Nanoseconds that the host takes for a task: testing the rows that no slab has is one.
TASK_NS = 3e5
#: Nanoseconds to copy a row that is sorted already to new memory.
COPY_NS = 5.0


class Orderings:
    """The orderings of one run: long slabs for old rows, shorter ones for younger rows.

    Where devices search, the youngest rows of a growing run are an incomplete slab. It is sorted
    again once testing the rows that it lacks has taken as long.

    Parameters
    ----------
    threads : int
        For sorting.
    """

    def __init__(self, chooser: Chooser, threads: int) -> None:
        self.chooser = chooser
        self.threads = threads
        self._layouts: tuple[Layout, Layout] | None = None
        #: Rows of the slabs of each level that were last chosen for, the longest first.
        self._tried: list[int] = []
        #: From the longest slabs, which hold the oldest rows; and the choice of each.
        self.levels: list[SlabOrdering] = []
        self._choices: list[GridChoice] = []
        #: Kinds of orders of a table that took longer than expected: a visit's time, and the order.
        self._seen: dict[type, float] = {}
        self._orders: dict[type, SlabOrdering] = {}
        #: Nanoseconds that evaluating all pairs took so far, less those spent on sorting.
        self.credit = 0.0
        #: Nanoseconds that testing took so far of rows that wait for the slab of the youngest ones.
        self._waited = 0.0
        #: Probes to search for before the next look at some of their ranges.
        self._trusted = 0
        #: Consecutive probes with little gain, and probes still to leave as they are.
        self.misses = self.skip = 0

    @property
    def nbytes(self) -> int:
        return sum(level.nbytes for level in self.levels)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the runs that the levels are."""
        return [level.number for level in self.levels]

    def missed(self) -> None:
        """Note a miss: the next probes are not searched, twice as many after each miss in a row."""
        self.misses += 1
        self.skip = min((1 << self.misses) - 1, MOST_SKIPPED)

    def _holds(
        self,
        level: SlabOrdering,
        choice: GridChoice,
        rows: OrderedRows,
        boxes: Boxes | ZoneBounds,
        piece: Piece,
    ) -> bool:
        """Whether searching a level takes what was expected of it, and less than to test all pairs.

        If not, other orders are chosen: of a table at once, by the time that this one takes.
        """
        if self.chooser.pruning.always:
            return True
        took_ns, all_ns = self.chooser.look(rows, boxes, piece)
        kind = type(level.grid)
        is_known = self.chooser.growing or kind in self._seen
        if took_ns < all_ns and (is_known or took_ns <= WRONG * choice.tuple_ns):
            return True
        self.chooser.costed.turned_down[KIND[kind]] = choice.tuple_ns, took_ns
        if is_known:
            self.missed()
            self._layouts = None
            return False
        self._seen[kind], self._orders[kind] = took_ns, level
        self.levels, self._choices, self.credit = [], [], 0.0
        return False

    def prepare(self, window: Snapshot, layout: Layout, by: SearchKeys, ranges: Piece) -> bool:
        """Sort the rows that a probe needs, if that pays; return whether there is an order."""
        is_served = all(set(level.grid.hashed) <= set(by.equal) for level in self.levels)
        if self._layouts != (layout, by.layout) or not is_served:
            self._layouts, self._tried = (layout, by.layout), []
            self.levels, self._choices = [], []
            self._seen, self._orders = {}, {}
        self._set_levels(window, by, ranges)
        if not self.levels:
            return False
        gain = self.chooser.gain(ranges, self.levels[0].rows, self._choices[0])
        if gain <= 0:
            return False
        self.credit += gain
        wanted = self._wanted(window, ranges)
        rows, price = 0, 0.0
        for level, choice, end in zip(self.levels, self._choices, wanted, strict=True):
            if end > level.end:
                more = max(end - level.complete, 0)
                rows, price = rows + more, price + more * choice.sort_ns
        if rows and self.credit < price * (1 - self.chooser.pruning.free_rows / rows):
            return False
        self.credit -= price
        self._sort(window, layout, by, wanted)
        return True

    def _set_levels(self, window: Snapshot, by: SearchKeys, ranges: Piece) -> None:
        """Add levels that probes like this one need, and leave out shorter ones."""
        sizes = self.chooser.slab_rows(ranges, window.end - window.first)
        if self.levels:
            is_longer = sizes[0] > self.levels[0].rows or sizes[-1] > self.levels[-1].rows
            if not self.chooser.growing or not is_longer or sizes == self._tried:
                return
        self._tried, self._trusted = sizes, 0
        held = {level.rows for level in self.levels}
        levels = list(zip(self.levels, self._choices, strict=True))
        missing = [size for size in sizes if size not in held]
        for size, choice in self.chooser.grids(window, by, ranges, missing, self._seen):
            first = window.first if self.chooser.gathers else _up(window.first, size)
            level = self._orders.get(type(choice.grid)) or SlabOrdering(size, first, choice.grid)
            levels.append((level, choice))
        longest = max((level.rows for level, _ in levels), default=0)
        levels = [pair for pair in levels if pair[0].rows >= min(sizes[-1], longest)]
        levels.sort(key=lambda pair: -pair[0].rows)
        self.levels, self._choices = [pair[0] for pair in levels], [pair[1] for pair in levels]

    def _wanted(self, window: Snapshot, ranges: Piece) -> list[int]:
        """Position up to which each level should be sorted."""
        if not self.chooser.growing:
            is_whole = self.chooser.costs.apart  # a device's memory is for a run that does not grow
            high = ranges.high
            return [window.end if is_whole else min(_up(high, self.levels[0].rows), window.end)]
        ends, covered = [], window.first
        for level in self.levels:
            begin = level.first if level.end >= covered else self._begin(level, covered)
            covered = max(begin + (window.end - begin) // level.rows * level.rows, covered)
            ends.append(covered)
        if self.chooser.gathers:
            last = self.levels[-1]
            waiting = min(window.end, ranges.high) - max(covered, last.end)
            if waiting > 0:
                self._waited += len(ranges.rows) * waiting * self.chooser.costs.scan_ns
                self._waited += 0.0 if self.chooser.pruning.always else TASK_NS
            price = (window.end - max(last.complete, covered)) * SORT_NS
            if self._waited >= price + last.copied * COPY_NS:
                ends[-1], self._waited = window.end, 0.0
        return ends

    def _begin(self, level: SlabOrdering, covered: int) -> int:
        """Position where a level's slabs begin once ``covered`` is the first row that they need."""
        return covered if self.chooser.gathers else _up(covered, level.rows)

    def _sort(
        self, window: Snapshot, layout: Layout, by: SearchKeys, wanted: Sequence[int]
    ) -> None:
        def read(low: int, high: int) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
            keys = window.keys_between(low, high)
            columns = layout.window(keys)
            if by.layout is not layout:
                return columns, by.layout.window(keys[by.skip :])
            return [_widened(column) for column in columns], columns

        covered = window.first
        for level, end in zip(self.levels, wanted, strict=True):
            level.drop(covered)
            if level.end < covered:
                level.restart(self._begin(level, covered))
            level.extend(end, read, self.threads, most=0 if self.chooser.growing else window.end)
            covered = max(covered, level.end)

    def parts(self, window: Snapshot, by: SearchKeys, ranges: Piece) -> list[Part]:
        """The ranges of a probe: those to search in each level, and the others as they are.

        If no level is left, choose again for this probe.
        """
        parts: list[Part] = []
        scanned: list[Piece] = []
        low, high, misses = ranges.low, ranges.high, self.misses
        self._trusted = (self._trusted or TRUSTED) - 1
        is_looked_at = self._trusted == TRUSTED - 1
        for level, choice in zip(self.levels, self._choices, strict=True):
            begin, end = max(low, level.first), min(high, level.end)
            if begin >= end:
                continue
            is_all = begin <= ranges.low and end >= ranges.high
            inside = ranges if is_all else ranges.clipped(begin, end)
            if not len(inside.rows):
                continue
            if self.chooser.gain(inside, level.rows, choice) <= 0:
                continue
            ordered = OrderedRun(level.number, window.run, level.ordered())
            boxes = level.grid.boxes(by.bounds)
            if is_looked_at and not self._holds(level, choice, ordered.rows, boxes, inside):
                continue
            if low < begin:
                scanned.append(ranges.clipped(low, begin))
            if self.chooser.costs.apart:
                parts.append(expanded(ordered, boxes, inside))
            else:
                parts.append(searched(ordered, boxes, inside, choice))
            low = end
        if parts and self.misses == misses:
            self.misses = 0
        if low < high:
            scanned.append(ranges.clipped(low, high))
        scanned = [piece for piece in scanned if len(piece.rows)]
        if scanned:
            parts.append(PrunedRanges(window, (concat(scanned),)))
        return parts

    def covering(
        self, window: Snapshot, layout: Layout, by: SearchKeys, ranges: Piece, sample: Piece
    ) -> tuple[OrderedRun, Grid | ZoneOrder, GridChoice] | None:
        """The one ordering that holds every row a probe's tuples meet; for runs that do not grow.

        None if there is none so far, it lacks some of these rows, or searching does not pay.

        Parameters
        ----------
        by : SearchKeys
            Of the sample alone.
        ranges : Piece
            Of all tuples.
        sample : Piece
            Some of them.
        """
        is_served = all(set(level.grid.hashed) <= set(by.layout.equal) for level in self.levels)
        if not self.levels or self._layouts != (layout, by.layout) or not is_served:
            return None
        if not self.prepare(window, layout, by, ranges):
            return None
        level, choice = self.levels[0], self._choices[0]
        if ranges.low < level.first or level.end < ranges.high:
            return None
        ordered = OrderedRun(level.number, window.run, level.ordered())
        boxes = level.grid.boxes(by.bounds)
        if not self._holds(level, choice, ordered.rows, boxes, sample):
            return None
        return ordered, level.grid, choice


def _widened(column: np.ndarray) -> np.ndarray:
    """A narrow number to fold as int32, which devices in this process read it as."""
    return column.astype(np.int32) if column.dtype in (np.int8, np.int16) else column


def _up(position: int, size: int) -> int:
    """The first multiple of a size from a position on."""
    return -(-position // size) * size
