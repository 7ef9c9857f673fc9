"""The rows of a run in the order of cells, and what a probe has to search there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from penstock.program import BandProgram, Mode, Program, null_code

from ..device.cut import Piece, concat
from ..device.search import AnySearch, Boxes, OrderedRows, RangeWalk, SearchPiece, SearchTask
from ..device.storage import storage_dtype
from ..keys.prepare import Layout
from ..windows.run import Snapshot
from .cells import Grid
from .choice import CORE, SAMPLE_ROWS, SAMPLE_TUPLES, SORT_NS, Choice, Costs, choose, spread
from .ordering import Ordering
from .sizes import Pruning

#: Fewest rows of a slab of a table: a few times what fits a second-level cache at once.
LEAST_ROWS = 1 << 14
#: Most probes without an attempt before the next one.
MOST_SKIPPED = 64
#: Tuples whose ranges are looked at before a probe is searched for.
LOOKED_AT = 32
#: Parts of a growing window's ranges that its longest slabs may be: one expires as a whole.
PARTS = 8


@dataclass(frozen=True, eq=False)
class OrderedRun:
    """Ordered rows as a run of their own, whose positions are places.

    Parameters
    ----------
    run : int
        Number of the run.
    base : int
        Number of the run whose rows these are.
    rows : OrderedRows
    """

    run: int
    base: int
    rows: OrderedRows

    @property
    def first(self) -> int:
        return self.rows.first

    @property
    def end(self) -> int:
        return self.rows.end

    def columns(self, layout: Layout, low: int, high: int) -> list[np.ndarray]:
        """Device columns of the places ``[low, high)``."""
        return [column[low - self.first : high - self.first] for column in self.rows.columns]


@dataclass(frozen=True, eq=False)
class Searched(ABC):
    """Tuples that a device searches for in ordered rows.

    Parameters
    ----------
    source : OrderedRun
    piece : SearchPiece
    """

    source: OrderedRun
    piece: SearchPiece

    @property
    def pieces(self) -> tuple[SearchPiece, ...]:
        return (self.piece,)

    @property
    def evaluations(self) -> int:
        """Pairs that the window admits; how many are tested is known afterwards."""
        return self.piece.admitted

    @abstractmethod
    def task(self, piece: Piece, arrays: Sequence[np.ndarray], room: int, mode: Mode) -> AnySearch:
        """The task of some tuples.

        Parameters
        ----------
        piece : SearchPiece
        arrays : sequence of ndarray
            Device arrays of all tuples.
        """

    def floor(self, piece: SearchPiece) -> np.ndarray | None:
        """The floor of a piece as places."""
        return None if piece.floor is None else piece.floor - self.source.first

    def positions(self, places: np.ndarray) -> np.ndarray:
        """Positions in the run of what a device found: it gives positions."""
        return places


@dataclass(frozen=True, eq=False)
class SearchedBoxes(Searched):
    """Tuples with keys that a device searches for.

    Parameters
    ----------
    boxes : Boxes
        Of all tuples.
    """

    boxes: Boxes

    def task(self, piece: Piece, arrays: Sequence[np.ndarray], room: int, mode: Mode) -> SearchTask:
        assert isinstance(piece, SearchPiece)
        return SearchTask(
            piece.of(arrays),
            piece.start,
            piece.end,
            room,
            self.source.rows,
            Boxes(*piece.of(self.boxes.arrays)),
            mode,
            self.floor(piece),
        )


@dataclass(frozen=True, eq=False)
class PrunedRanges:
    """Ranges of stream tuples in one order of a run's rows.

    Parameters
    ----------
    source : Snapshot or OrderedRun
    pieces : tuple of Piece
        Positions are those of the source.
    """

    source: Snapshot | OrderedRun
    pieces: tuple[Piece, ...]

    @property
    def evaluations(self) -> int:
        return sum(piece.evaluations for piece in self.pieces)

    def positions(self, places: np.ndarray) -> np.ndarray:
        """Positions in the run of what a device found in the source."""
        if isinstance(self.source, Snapshot):
            return places
        rows = self.source.rows
        at = places - rows.first
        return rows.order[at] + (places - at % rows.rows)


Part = PrunedRanges | Searched


@dataclass(frozen=True)
class SearchKeys:
    """What the rows that tuples may match are searched by.

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
        """The tests to search by: those that every match passes."""
        return searched_tests(self.layout.program)

    @cached_property
    def equal(self) -> list[int]:
        """Those of them that ask for one code, of every tuple."""
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
        #: From the longest slabs, which hold the oldest rows; and the choice of each.
        self.levels: list[Ordering] = []
        self._choices: list[Choice] = []
        #: Nanoseconds that evaluating all pairs took so far, less those spent on sorting.
        self.credit = 0.0
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
        """Sort what a probe needs, if that is worth it; return whether there is an order."""
        is_served = all(set(level.grid.hashed) <= set(by.equal) for level in self.levels)
        if self._layouts != (layout, by.layout) or not is_served:
            self._layouts, self.levels, self._choices = (layout, by.layout), [], []
        mean = ranges.evaluations / len(ranges.rows)
        longest = self._sizes(mean, window.end - window.first)[0]
        if not self.levels or (self.growing and longest > self.levels[0].rows):
            for size, choice in reversed(self.choose(window, by, ranges)):
                if not self.levels or size > self.levels[0].rows:
                    self._choices.insert(0, choice)
                    self.levels.insert(0, Ordering(size, _up(window.first, size), choice.grid))
        if not self.levels:
            return False
        gain = self.gain(ranges, self.levels[0].rows, self._choices[0])
        if gain <= 0 and not self.sizes.always:
            return False
        self.credit += gain
        wanted = self._wanted(window, ranges.high)
        rows = sum(max(end - level.end, 0) for level, end in zip(self.levels, wanted, strict=True))
        if not self.sizes.always and self.credit < (rows - self.sizes.free_rows) * SORT_NS:
            return False
        self.credit -= rows * SORT_NS
        self._sort(window, layout, by, wanted)
        return True

    def gain(self, ranges: Piece, rows: int, choice: Choice) -> float:
        """Expected nanoseconds that searching slabs of so many rows saves, sorting aside."""
        return ranges.evaluations * self.costs.scan_ns - _visits(ranges, rows) * choice.tuple_ns

    def choose(self, window: Snapshot, by: SearchKeys, ranges: Piece) -> list[tuple[int, Choice]]:
        """The rows of a slab and the grid of each level."""
        if not by.tests:
            return []
        held, mean = window.end - window.first, ranges.evaluations / len(ranges.rows)
        keys = window.keys_at(spread(held, SAMPLE_ROWS) + window.first)
        sample = by.layout.window(keys[by.skip :])
        tuples = ranges.rows[spread(len(ranges.rows), SAMPLE_TUPLES)]
        some = [own[tuples] for own in by.bounds]
        sizes = self._sizes(mean, held)
        sides = by.tests, by.equal, sample, some
        options: dict[str, Any] = {
            "costs": self.costs,
            "admitted": mean,
            "always": self.sizes.always,
        }
        found = ((size, choose(*sides, size, by.null, **options)) for size in sizes)
        return [(size, choice) for size, choice in found if choice is not None]

    def _sizes(self, mean: float, held: int) -> list[int]:
        """Rows of the slabs of each level, for ranges of a mean length."""
        if not self.growing:
            if self.costs.apart and not self.sizes.always:
                return [max(held, 1)]  # each slab would load a tuple again
            least = self.sizes.run_rows[0] if self.sizes.always else LEAST_ROWS
            size = 1 << (int(max(mean, least)) - 1).bit_length()
            # As long as each other: each has a directory of its own.
            return [max(-(-held // -(-held // size)), 1)] if held else [size]
        sizes = sorted(self.sizes.run_rows, reverse=True)
        return [size for size in sizes if size * PARTS <= mean] or sizes[-1:]

    def _wanted(self, window: Snapshot, high: int) -> list[int]:
        """How far each level should reach."""
        if not self.growing:
            is_whole = self.costs.apart  # a device's memory is for a run that does not grow
            return [window.end if is_whole else min(_up(high, self.levels[0].rows), window.end)]
        return [window.end // level.rows * level.rows for level in self.levels]

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
                level.restart(_up(covered, level.rows))
            level.extend(end, read, self.threads, most=0 if self.growing else window.end)
            covered = max(covered, level.end)

    def parts(self, window: Snapshot, by: SearchKeys, ranges: Piece) -> list[Part]:
        """The ranges of a probe: those to search in each level, and the others as they are."""
        found: list[Part] = []
        scanned: list[Piece] = []
        low, high, misses = ranges.low, ranges.high, self.misses
        for level, choice in zip(self.levels, self._choices, strict=True):
            begin, end = max(low, level.first), min(high, level.end)
            if begin >= end:
                continue
            own = ranges.clipped(begin, end)
            if not len(own.rows):
                continue
            if self.gain(own, level.rows, choice) <= 0 and not self.sizes.always:
                continue
            ordered = OrderedRun(level.number, window.run, level.ordered())
            boxes = level.grid.boxes(by.bounds)
            if not self.sizes.always and not self._holds(ordered, boxes, own):
                continue
            scanned.append(ranges.clipped(low, begin))
            if self.costs.apart:
                found.append(_expanded(ordered, boxes, own))
            else:
                found.append(_searched(ordered, boxes, own, choice))
            low = end
        if found and self.misses == misses:
            self.misses = 0
        scanned.append(ranges.clipped(low, high))
        scanned = [piece for piece in scanned if len(piece.rows)]
        if scanned:
            found.append(PrunedRanges(window, (concat(scanned),)))
        return found

    def covering(
        self, window: Snapshot, layout: Layout, by: SearchKeys, ranges: Piece, sample: Piece
    ) -> tuple[OrderedRun, Grid, Choice] | None:
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

    def _holds(self, ordered: OrderedRun, boxes: Boxes, own: Piece) -> bool:
        """Whether a sample of tuples is searched for in less time than its pairs are tested.

        Keys may drift with time, or depend on each other. Then the grid is forgotten.
        """
        at = spread(len(own.rows), LOOKED_AT)
        some = Piece(own.rows[at], own.start[at], own.end[at])
        tuples = boxes.of(some.rows), some.start, some.end
        walk = RangeWalk(ordered.rows, *tuples, None, apart=self.costs.apart)
        ranges = tested = 0
        while count := walk.next():
            ranges += count
            tested += int((walk.high[:count] - walk.low[:count]).sum())
        visits = _visits(some, ordered.rows.rows)
        if self.costs.of(visits, ranges, tested) < some.evaluations * self.costs.scan_ns:
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


def _visits(ranges: Piece, rows: int) -> float:
    """About how many slabs of so many rows the tuples visit in all."""
    return len(ranges.rows) + ranges.evaluations / rows


def _searched(ordered: OrderedRun, boxes: Boxes, own: Piece, choice: Choice) -> Searched:
    return SearchedBoxes(ordered, search_piece(ordered, own, choice), boxes)


def search_piece(ordered: OrderedRun, own: Piece, choice: Choice) -> SearchPiece:
    """Tuples to search for, with their expected cost."""
    slabs = _visits(own, ordered.rows.rows) / len(own.rows)
    cost = choice.tuple_ns / CORE.scan_ns * slabs
    return SearchPiece(own.rows, own.start, own.end, cost, own.evaluations)


def _expanded(ordered: OrderedRun, boxes: Boxes, own: Piece) -> PrunedRanges:
    """The ranges of places that tuples visit, in an order in which none steps back."""
    walk = RangeWalk(ordered.rows, boxes.of(own.rows), own.start, own.end, None, apart=True)
    parts = [(walk.row[:0], walk.low[:0], walk.high[:0])]
    while count := walk.next():
        parts.append((walk.row[:count].copy(), walk.low[:count].copy(), walk.high[:count].copy()))
    row, low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
    # Cells do not overlap, and in each cell ranges rise with the tuples.
    order = np.argsort(low, kind="stable")
    first = ordered.rows.first
    piece = Piece(own.rows[row[order]], first + low[order], first + high[order])
    return PrunedRanges(ordered, (piece,) if len(order) else ())
