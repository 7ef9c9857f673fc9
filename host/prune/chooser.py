"""Choose how to leave pairs untested: which rows are sorted together, by which cells, and whether
that pays.

Modules that sort and search ask here: which cells to use, before anything is sorted; how much a
probe gains by them; and, before a search, whether they still rule out enough. Each answer is from a
sample of rows and tuples at equal distances, and from counts, never from a clock. Devices do not
ask: they choose from pairs of their own tasks which pairs to test by narrow codes first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from penstock.expr.node import show
from penstock.plan.band import BandForm, BandTest
from penstock.plan.forms import JoinForm
from penstock.plan.plan import Evaluation
from penstock.program import BandProgram, Mode, Program, null_code

from ..device.base import Device
from ..device.cut import Piece, spread, whole
from ..device.search import Boxes, OrderedRows, RangeWalk
from ..device.storage import storage_dtype
from ..device.zones import ZoneBounds
from ..keys.binding import Binder, search_binder
from ..keys.encoders import floats_of
from ..keys.prepare import Layout, search_form, window_keys
from ..rows.sides import SideRows
from ..windows.run import Snapshot, still
from .choice import CORE, SAMPLE_ROWS, SAMPLE_TUPLES, Costs, GridChoice, Sample, choose, costs_of
from .costed import KIND, Candidate, Costed
from .parts import slab_visits
from .sizes import DEFAULT_PRUNING, Pruning
from .zone_choice import choose_zones, least_ns

#: Fewest rows of a slab of a table: a few times what fits a second-level cache at once.
LEAST_ROWS = 1 << 14
#: Parts of a growing window's ranges that its longest slabs may be: one expires as a whole.
PARTS = 8
#: Rows that are sorted in the time that a tuple takes in a slab, about.
ROWS_PER_VISIT = 2.5
#: How much longer it takes to look at zones than to look at cells.
ZONES_LOOK = 8
#: Nanoseconds to make the key of a row for one test, and both bounds of a tuple.
KEY_NS, BOUNDS_NS = 20.0, 50.0
#: Tuples whose ranges are looked at before a probe is searched for.
LOOKED_AT = 32


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


class Chooser:
    """Chooses for the probes of one form.

    Parameters
    ----------
    costs : Costs
        Of the devices; those to which each cell is a range are given ranges of places.
    growing : bool
        Whether rows may follow; else one ordering holds all rows.
    speed : float
        Of the devices, where a core's is 1.

    Attributes
    ----------
    least_pairs : float
        Fewest pairs of a probe to look for an order.
    costed : Costed
    """

    def __init__(
        self, pruning: Pruning, costs: Costs, *, growing: bool, speed: float = 1.0
    ) -> None:
        self.pruning = pruning
        self.costs = costs
        self.growing = growing
        self.least_pairs = pruning.least_pairs * min(speed, CORE.scan_ns / costs.scan_ns)
        self.costed = Costed()

    def considers(self, program: Program, mode: Mode, ranges: Piece) -> bool:
        """Whether a probe may have an order, which pays only for many pairs.

        An order moves rows, and sums of floats depend on their order.
        """
        if ranges.evaluations < self.least_pairs:
            return False
        if mode is not Mode.SUM or isinstance(program, BandProgram):
            return True
        return program.value is not None and not program.value.type.is_float

    @property
    def gathers(self) -> bool:
        """Whether the youngest rows are an incomplete slab."""
        return self.growing and not self.costs.apart

    def slab_rows(self, ranges: Piece, held: int) -> list[int]:
        """Rows of the slabs of each level, the longest first."""
        mean = ranges.evaluations / len(ranges.rows)
        if not self.growing:
            if self.costs.apart and not self.pruning.always:
                return [max(held, 1)]  # each slab would load a tuple again
            least = self.pruning.run_rows[0] if self.pruning.always else LEAST_ROWS
            size = 1 << (int(max(mean, least)) - 1).bit_length()
            # As long as each other: each has a directory of its own.
            return [max(-(-held // -(-held // size)), 1)] if held else [size]
        sizes = sorted(self.pruning.run_rows, reverse=True)
        least = sizes[-1]
        if self.gathers:
            # Each probe may sort half a slab again; shorter slabs are more visits.
            best = min(math.sqrt(2 * len(ranges.rows) * mean * ROWS_PER_VISIT), 2 * mean)
            doublings = round(math.log2(max(best / least, 1.0)))
            least = min(least << doublings, sizes[0])
        return [size for size in sizes if size > least and size * PARTS <= mean] + [least]

    def grids(
        self,
        window: Snapshot,
        by: SearchKeys,
        ranges: Piece,
        sizes: Sequence[int],
        seen: Mapping[type, float] = MappingProxyType({}),
    ) -> list[tuple[int, GridChoice]]:
        """Choose orders by a sample of a window and of tuples; as :meth:`chosen`."""
        tests = by.tests if self.pruning.bands else [d for d in by.tests if d in by.equal]
        if not tests or not sizes:
            return []
        keys = window.keys_at(spread(window.first, window.end, SAMPLE_ROWS))
        tuples = ranges.sample(SAMPLE_TUPLES).rows
        bounds = [bound[tuples] for bound in by.bounds]
        sample = Sample(tests, by.equal, by.layout.window(keys[by.skip :]), bounds, by.null)
        return self.chosen(sample, ranges, window.end - window.first, sizes, seen)

    def chosen(
        self,
        sample: Sample,
        ranges: Piece,
        held: int,
        sizes: Sequence[int],
        seen: Mapping[type, float] = MappingProxyType({}),
    ) -> list[tuple[int, GridChoice]]:
        """Choose an order for slabs of each size; leave out sizes at which none gains anything.

        Parameters
        ----------
        ranges : Piece
            All tuples.
        held : int
            Rows of the window.
        sizes : sequence of int
            From :meth:`slab_rows`, or some of these.
        seen : mapping of type to float, optional
            Nanoseconds that a visit takes by kinds of orders that are there, which count in place
            of what the sample says.
        """
        mean = ranges.evaluations / len(ranges.rows)
        pruning, chosen = self.pruning, []
        fastest = math.inf if pruning.always else least_ns(self.costs)
        # Rows are sorted once for all probes; this is the only one of a table with few tuples.
        is_only = not self.growing and len(ranges.rows) < pruning.portion
        rows = held if is_only else 0
        for size in sizes:
            visits = slab_visits(ranges, size)
            costed: list[Candidate] = []
            options = {"costs": self.costs, "admitted": mean, "always": pruning.always}
            options["costed"] = costed
            choices = [choose(sample, size, **options)] if "cells" in pruning.orders else []
            choices = [choice and _as_seen(choice, seen) for choice in choices]
            # Zones are not looked at where they gain less than that takes.
            now_ns = [visits * c.tuple_ns for c in choices if c is not None]
            most_ns = min(now_ns, default=ranges.evaluations * self.costs.scan_ns)
            look_ns = ZONES_LOOK * self.least_pairs * self.costs.scan_ns
            is_worth = self.growing or most_ns - visits * fastest > look_ns
            if "zones" in pruning.orders and is_worth:
                zones = choose_zones(sample, size, **options, growing=self.growing)
                choices.append(zones and _as_seen(zones, seen))
            kept = [choice for choice in choices if choice is not None]
            best = min(kept, key=lambda c: visits * c.tuple_ns + rows * c.sort_ns, default=None)
            if best is not None:
                chosen.append((size, best))
            now = self.costed
            now.tuples, now.pairs = len(ranges.rows), ranges.evaluations
            now.rows, now.visits = held, visits
            now.scan_ns, now.candidates = self.costs.scan_ns, costed
            of_kind = [] if best is None else [c for c in costed if c.kind == KIND[type(best.grid)]]
            now.chosen = min(of_kind, key=lambda c: c.tuple_ns, default=None)
        return chosen

    def gain(self, ranges: Piece, rows: int, choice: GridChoice) -> float:
        """Expected nanoseconds that searching slabs of so many rows saves, sorting aside."""
        if self.pruning.always:
            return math.inf
        return ranges.evaluations * self.costs.scan_ns - slab_visits(ranges, rows) * choice.tuple_ns

    def look(
        self, rows: OrderedRows, boxes: Boxes | ZoneBounds, piece: Piece
    ) -> tuple[float, float]:
        """Nanoseconds of a visit to a slab by searching, and by testing all, of a sample of tuples.

        Searching may take more than was expected: keys drift with time, or depend on each other.
        """
        some = piece.sample(LOOKED_AT)
        tuples = boxes.pick(some.rows), some.start, some.end
        walk = RangeWalk(rows, *tuples, None, apart=self.costs.apart)
        ranges = tested = 0
        while count := walk.next():
            ranges += count
            tested += int((walk.high[:count] - walk.low[:count]).sum())
        visits = slab_visits(some, rows.rows)
        spent_ns = self.costs.total_ns(visits, ranges, tested)
        return spent_ns / visits, some.evaluations * self.costs.scan_ns / visits


def _as_seen(choice: GridChoice, seen: Mapping[type, float]) -> GridChoice:
    if type(choice.grid) not in seen:
        return choice
    return replace(choice, tuple_ns=seen[type(choice.grid)], sort_ns=0.0)


def expectation(
    evaluation: Evaluation,
    window: SideRows,
    stream: SideRows,
    start: np.ndarray,
    end: np.ndarray,
    device: Device,
) -> Costed:
    """Cost the orders of a window for a join of tables, and choose one, as its probes would.

    Parameters
    ----------
    window, stream : SideRows
        In the order of time.
    start, end : ndarray of int64
        Range of window rows of each tuple.
    """
    form, mode = evaluation.form, evaluation.modes[0]
    ranges = whole(start, end)
    if not len(ranges.rows):
        return Costed()
    some, tuples = window.pick(spread(0, len(window), SAMPLE_ROWS)), ranges.sample(SAMPLE_TUPLES)
    run = still(some.time, window_keys(form, some.columns, len(some)))
    floats = floats_of(searches=device.searches)
    binder = search_binder(form, growing=False)
    binder = binder or Binder(form, device.key_widths, growing=False, floats=floats)
    columns, count = stream.pick(tuples.rows).columns, len(tuples.rows)
    layout = binder.bind(run, columns, count)
    by = SearchKeys(layout, layout.stream(columns, count).arrays, binder.skip)
    is_band = isinstance(form.form, BandForm)
    costs = costs_of(searches=device.searches, units=device.units, speed=1.0, is_band=is_band)
    chooser = Chooser(DEFAULT_PRUNING, costs, growing=False)
    costed = chooser.costed
    costed.tuples, costed.pairs, costed.rows = len(ranges.rows), ranges.evaluations, len(window)
    if not chooser.considers(layout.program, mode, ranges):
        return costed
    costed.scan_ns = costs.scan_ns
    chosen = []
    if by.tests:
        codes = layout.window(run.keys[binder.skip :])
        sample = Sample(by.tests, by.equal, codes, by.bounds, by.null)
        sizes = chooser.slab_rows(ranges, len(window))
        chosen = chooser.chosen(sample, ranges, len(window), sizes)
    if all(chooser.gain(ranges, *one) <= len(window) * one[1].sort_ns for one in chosen):
        costed.chosen = None
    return costed


def expected_s(form: JoinForm, costed: Costed) -> float:
    """Expected seconds of one core for a join of tables that was costed, without its output."""
    best, tests = costed.chosen, len(_searched(form))
    # Where all pairs are tested, keys get narrow codes, too.
    row_ns = tests * KEY_NS * 2 if best is None else tests * KEY_NS + best.sort_ns
    keys_ns = costed.rows * row_ns + costed.tuples * tests * BOUNDS_NS
    return costed.seconds(best) + keys_ns * 1e-9


def key_texts(form: JoinForm, names: Mapping[str, str]) -> tuple[str, ...]:
    """Write the keys by which a form's windows are searched."""
    return tuple(show(test.key, names) for test in _searched(form))


def _searched(form: JoinForm) -> tuple[BandTest, ...]:
    """Tests by whose keys a form's windows are searched."""
    searched = (search_form(form) or form).form
    return tuple(searched.tests) if isinstance(searched, BandForm) else ()
