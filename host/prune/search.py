"""Orders the rows of a run by cell, and splits a probe into ranges to search and to scan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from penstock.program import BandProgram, Program, null_code

from ..device.cut import Piece, concat, spread
from ..device.search import Boxes, RangeWalk
from ..device.storage import storage_dtype
from ..keys.prepare import Layout
from ..windows.run import Snapshot
from .cells import Grid
from .choice import SAMPLE_ROWS, SAMPLE_TUPLES, SORT_NS, Costs, GridChoice, choose
from .ordering import SlabOrdering
from .parts import OrderedRun, Part, PrunedRanges, expanded, searched, slab_visits
from .sizes import Pruning

#: Fewest rows of a slab of a table: a few times what fits a second-level cache at once.
LEAST_ROWS = 1 << 14
#: Most probes without an attempt before the next one.
MOST_SKIPPED = 64
#: Tuples whose ranges are looked at before a probe is searched for.
LOOKED_AT = 32
#: Probes that are searched for after such a look.
TRUSTED = 8
#: Parts of a growing window's ranges that its longest slabs may be: one expires as a whole.
PARTS = 8
#: Nanoseconds that the host takes for a task: testing the rows that no slab has is one.
TASK_NS = 3e5
#: Nanoseconds to copy a row that is sorted already to new memory.
COPY_NS = 5.0
#: Rows that are sorted in the time that a tuple takes in a slab, about.
ROWS_PER_VISIT = 2.5


@dataclass(frozen=True)
class SearchKeys:
    """Keys by which the rows that tuples may match are searched.

    Parameters
    ----------
    layout : Layout
        Of codes; may be that of the program.
    bounds : sequence of ndarray
        ``lo_0, hi_0, lo_1, ...`` of the tuples.
    skip : int
        Keys of a window tuple before those to search by.
    """

    layout: Layout
    bounds: Sequence[np.ndarray]
    skip: int

    @cached_property
    def tests(self) -> list[int]:
        """Tests to search by: every match passes them."""
        return searched_tests(self.layout.program)

    @cached_property
    def equal(self) -> list[int]:
        """Tests to search by whose bounds are one code for every tuple: equalities."""
        bounds = self.bounds
        return [d for d in self.tests if np.array_equal(bounds[2 * d], bounds[2 * d + 1])]

    @property
    def null(self) -> int:
        """Code of NULL."""
        assert isinstance(self.layout.program, BandProgram)
        return null_code(self.layout.program.key_bits)


def searched_tests(program: Program) -> list[int]:
    """The tests that every match of a program passes."""
    if not isinstance(program, BandProgram) or not program.cubes:
        return []
    if program.payload is not None and storage_dtype(program.payload).kind != "i":
        return []  # folded in several passes
    common = int(np.bitwise_and.reduce(np.array(program.cubes, np.int64)))
    return [d for d in range(program.tests) if common >> d & 1]


class Orderings:
    """The orderings of one run: long slabs for old rows, shorter ones for younger rows.

    Where devices search, the youngest rows of a growing run are an incomplete slab. It is sorted
    again once testing the rows that it lacks has taken as long.

    Parameters
    ----------
    growing : bool
        Whether rows may follow; else one ordering holds all rows.
    threads : int
        For sorting.
    costs : Costs
        Of the devices; those to which each cell is a range are given ranges of places.
    """

    def __init__(self, sizes: Pruning, *, growing: bool, threads: int, costs: Costs) -> None:
        self.sizes = sizes
        self.growing = growing
        self.threads = threads
        self.costs = costs
        self._layouts: tuple[Layout, Layout] | None = None
        #: Rows of the slabs of each level that were last chosen for, the longest first.
        self._tried: list[int] = []
        #: From the longest slabs, which hold the oldest rows; and the choice of each.
        self.levels: list[SlabOrdering] = []
        self._choices: list[GridChoice] = []
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
        """Leave the next probes as they are, twice as many after each miss."""
        self.misses += 1
        self.skip = min((1 << self.misses) - 1, MOST_SKIPPED)

    def prepare(self, window: Snapshot, layout: Layout, by: SearchKeys, ranges: Piece) -> bool:
        """Sort the rows that a probe needs, if that pays; return whether there is an order."""
        is_served = all(set(level.grid.hashed) <= set(by.equal) for level in self.levels)
        if self._layouts != (layout, by.layout) or not is_served:
            self._layouts, self._tried = (layout, by.layout), []
            self.levels, self._choices = [], []
        self._set_levels(window, by, ranges)
        if not self.levels:
            return False
        gain = self.gain(ranges, self.levels[0].rows, self._choices[0])
        if gain <= 0 and not self.sizes.always:
            return False
        self.credit += gain
        wanted = self._wanted(window, ranges)
        rows = sum(
            max(end - level.complete, 0)
            for level, end in zip(self.levels, wanted, strict=True)
            if end > level.end
        )
        if not self.sizes.always and self.credit < (rows - self.sizes.free_rows) * SORT_NS:
            return False
        self.credit -= rows * SORT_NS
        self._sort(window, layout, by, wanted)
        return True

    def _set_levels(self, window: Snapshot, by: SearchKeys, ranges: Piece) -> None:
        """Add levels that probes like this one need, and leave out shorter ones."""
        sizes = self._sizes(ranges, window.end - window.first)
        if self.levels:
            is_longer = sizes[0] > self.levels[0].rows or sizes[-1] > self.levels[-1].rows
            if not self.growing or not is_longer or sizes == self._tried:
                return
        self._tried, self._trusted = sizes, 0
        held = {level.rows for level in self.levels}
        levels = list(zip(self.levels, self._choices, strict=True))
        for size, choice in self.choose(window, by, ranges, [n for n in sizes if n not in held]):
            first = window.first if self._gathers else _up(window.first, size)
            levels.append((SlabOrdering(size, first, choice.grid), choice))
        longest = max((level.rows for level, _ in levels), default=0)
        levels = [pair for pair in levels if pair[0].rows >= min(sizes[-1], longest)]
        levels.sort(key=lambda pair: -pair[0].rows)
        self.levels, self._choices = [pair[0] for pair in levels], [pair[1] for pair in levels]

    @property
    def _gathers(self) -> bool:
        """Whether the youngest rows are an incomplete slab."""
        return self.growing and not self.costs.apart

    def gain(self, ranges: Piece, rows: int, choice: GridChoice) -> float:
        """Expected nanoseconds that searching slabs of so many rows saves, sorting aside."""
        return ranges.evaluations * self.costs.scan_ns - slab_visits(ranges, rows) * choice.tuple_ns

    def choose(
        self,
        window: Snapshot,
        by: SearchKeys,
        ranges: Piece,
        sizes: Sequence[int] | None = None,
    ) -> list[tuple[int, GridChoice]]:
        """The rows of a slab and the grid of each level.

        Parameters
        ----------
        sizes : sequence of int, optional
            Rows of the slabs to choose for; by default of all levels that such probes need.
        """
        if sizes is None:
            sizes = self._sizes(ranges, window.end - window.first)
        if not by.tests or not sizes:
            return []
        mean = ranges.evaluations / len(ranges.rows)
        keys = window.keys_at(spread(window.first, window.end, SAMPLE_ROWS))
        sample = by.layout.window(keys[by.skip :])
        tests = by.tests if self.sizes.bands else [d for d in by.tests if d in by.equal]
        if not tests:
            return []
        tuples = ranges.sample(SAMPLE_TUPLES).rows
        some = [bound[tuples] for bound in by.bounds]
        sides = tests, by.equal, sample, some
        options: dict[str, Any] = {
            "costs": self.costs,
            "admitted": mean,
            "always": self.sizes.always,
        }
        choices = ((size, choose(*sides, size, by.null, **options)) for size in sizes)
        return [(size, choice) for size, choice in choices if choice is not None]

    def _sizes(self, ranges: Piece, held: int) -> list[int]:
        """Rows of the slabs of each level, the longest first."""
        mean = ranges.evaluations / len(ranges.rows)
        if not self.growing:
            if self.costs.apart and not self.sizes.always:
                return [max(held, 1)]  # each slab would load a tuple again
            least = self.sizes.run_rows[0] if self.sizes.always else LEAST_ROWS
            size = 1 << (int(max(mean, least)) - 1).bit_length()
            # As long as each other: each has a directory of its own.
            return [max(-(-held // -(-held // size)), 1)] if held else [size]
        sizes = sorted(self.sizes.run_rows, reverse=True)
        least = sizes[-1]
        if self._gathers:
            # Each probe may sort half a slab again; shorter slabs are more visits.
            best = min(math.sqrt(2 * len(ranges.rows) * mean * ROWS_PER_VISIT), 2 * mean)
            doublings = round(math.log2(max(best / least, 1.0)))
            least = min(least << doublings, sizes[0])
        return [size for size in sizes if size > least and size * PARTS <= mean] + [least]

    def _wanted(self, window: Snapshot, ranges: Piece) -> list[int]:
        """How far each level should reach."""
        if not self.growing:
            is_whole = self.costs.apart  # a device's memory is for a run that does not grow
            high = ranges.high
            return [window.end if is_whole else min(_up(high, self.levels[0].rows), window.end)]
        ends, covered = [], window.first
        for level in self.levels:
            begin = level.first if level.end >= covered else self._begin(level, covered)
            covered = max(begin + (window.end - begin) // level.rows * level.rows, covered)
            ends.append(covered)
        if self._gathers:
            last = self.levels[-1]
            waiting = min(window.end, ranges.high) - max(covered, last.end)
            if waiting > 0:
                self._waited += len(ranges.rows) * waiting * self.costs.scan_ns
                self._waited += 0.0 if self.sizes.always else TASK_NS
            price = (window.end - max(last.complete, covered)) * SORT_NS
            if self._waited >= price + last.copied * COPY_NS:
                ends[-1], self._waited = window.end, 0.0
        return ends

    def _begin(self, level: SlabOrdering, covered: int) -> int:
        """Position where a level's slabs begin once ``covered`` is the first row that they need."""
        return covered if self._gathers else _up(covered, level.rows)

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
            level.extend(end, read, self.threads, most=0 if self.growing else window.end)
            covered = max(covered, level.end)

    def parts(self, window: Snapshot, by: SearchKeys, ranges: Piece) -> list[Part]:
        """The ranges of a probe: those to search in each level, and the others as they are."""
        parts: list[Part] = []
        scanned: list[Piece] = []
        low, high, misses = ranges.low, ranges.high, self.misses
        self._trusted = (self._trusted or TRUSTED) - 1
        is_looked_at = self._trusted == TRUSTED - 1 and not self.sizes.always
        for level, choice in zip(self.levels, self._choices, strict=True):
            begin, end = max(low, level.first), min(high, level.end)
            if begin >= end:
                continue
            is_all = begin <= ranges.low and end >= ranges.high
            inside = ranges if is_all else ranges.clipped(begin, end)
            if not len(inside.rows):
                continue
            if self.gain(inside, level.rows, choice) <= 0 and not self.sizes.always:
                continue
            ordered = OrderedRun(level.number, window.run, level.ordered())
            boxes = level.grid.boxes(by.bounds)
            if is_looked_at and not self._holds(ordered, boxes, inside):
                continue
            if low < begin:
                scanned.append(ranges.clipped(low, begin))
            if self.costs.apart:
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
    ) -> tuple[OrderedRun, Grid, GridChoice] | None:
        """The order of a run that does not grow in which all tuples of a probe are searched for.

        None if there is none so far, or not for all of them.

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
        if not self.sizes.always and not self._holds(ordered, boxes, sample):
            return None
        return ordered, level.grid, choice

    def _holds(self, ordered: OrderedRun, boxes: Boxes, piece: Piece) -> bool:
        """Whether a sample of tuples is searched for in less time than its pairs are tested.

        Keys may drift with time, or depend on each other. Then the grid is forgotten.
        """
        some = piece.sample(LOOKED_AT)
        tuples = boxes.pick(some.rows), some.start, some.end
        walk = RangeWalk(ordered.rows, *tuples, None, apart=self.costs.apart)
        ranges = tested = 0
        while count := walk.next():
            ranges += count
            tested += int((walk.high[:count] - walk.low[:count]).sum())
        visits = slab_visits(some, ordered.rows.rows)
        if self.costs.total_ns(visits, ranges, tested) < some.evaluations * self.costs.scan_ns:
            return True
        self.missed()
        self._layouts = None
        return False


def _widened(column: np.ndarray) -> np.ndarray:
    """A narrow number to fold as int32, which devices in this process read it as."""
    return column.astype(np.int32) if column.dtype in (np.int8, np.int16) else column


def _up(position: int, size: int) -> int:
    """The first multiple of a size from a position on."""
    return -(-position // size) * size
