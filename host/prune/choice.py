"""Chooses the cells of a search from a sample of both sides and the cost of each step."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import TypeVar, cast

import numpy as np

from .cells import NO_CELL, Axis, Grid
from .costed import Candidate
from .zones import ZoneOrder

#: A number, or one per grid.
N = TypeVar("N", float, np.ndarray)

#: Window rows and stream tuples to look at.
SAMPLE_ROWS, SAMPLE_TUPLES = 1 << 14, 1 << 8
#: Most entries of an axis's table, and entries per bucket.
MOST_ENTRIES, ENTRIES = 1 << 16, 8
#: Most cells per row of a slab: a cell takes four bytes of directory.
CELLS_PER_ROW = 2
#: Rows of a slab per part of a hash: a test takes as long for a few as for one, and the directory
#: is as much shorter.
PER_PART = 4
#: Fewest sampled rows per cell for cells to be compared by the sample.
PER_CELL = 4
#: Bands of which the best two are looked for.
MOST_BANDS = 4
#: Most buckets of an axis, as a power of two.
MOST_BITS = 16
#: Largest share of the rows left to test for an order to be of use.
MOST_SHARE = 0.75
#: Nanoseconds of one core to sort a row.
SORT_NS = 25.0
#: Nanoseconds of a cycle of a board, and cycles in which it loads a stream tuple.
CYCLE_NS, LOAD_CYCLES = 3.3, 3.0
#: What a cell per row adds to the time of a tuple: larger directories fit no cache.
DIRECTORY_NS = 8.0


@dataclass(frozen=True)
class Costs:
    """Times of a device's steps, in nanoseconds.

    Parameters
    ----------
    tuple_ns, range_ns : float
        To begin a tuple in a slab, and to visit a range.
    test_ns, scan_ns : float
        To test a row in a range, and in the window as it stands.
    apart : bool
        Whether each cell is a range, as for devices that do not search.
    """

    tuple_ns: float
    range_ns: float
    test_ns: float
    scan_ns: float
    apart: bool = False

    def total_ns(self, visits: float, ranges: N, tested: N) -> N:
        """Nanoseconds of some visits of tuples to slabs, their ranges and tests."""
        return self.tuple_ns * visits + self.range_ns * ranges + self.test_ns * tested


#: Of one core that searches.
CORE = Costs(15.0, 15.0, 0.25, 0.06)
#: Nanoseconds of a core to test a row by a program that is no band tests.
PROGRAM_NS = 0.6


def costs_of(*, searches: bool, units: int, speed: float, is_band: bool = True) -> Costs:
    """Costs of some devices.

    Parameters
    ----------
    units : int
        Stream tuples that a lane holds at a time: each range loads one, and each cycle tests a row
        against all of them.
    speed : float
        Of devices of one unit, where a core's is 1.
    is_band : bool
        Whether a program is band tests, which a core evaluates in vectors.
    """
    if units > 1 and not searches:
        test_ns = CYCLE_NS / units
        return Costs(0.0, LOAD_CYCLES * CYCLE_NS, test_ns, test_ns, apart=True)
    test_ns, scan_ns = (CORE.test_ns, CORE.scan_ns) if is_band else (PROGRAM_NS, PROGRAM_NS)
    return replace(CORE, test_ns=test_ns, scan_ns=scan_ns / speed, apart=not searches)


@dataclass(frozen=True)
class GridChoice:
    """A grid or an order with zones, and the share of a slab's rows that a tuple should test.

    ``tuple_ns`` is the expected time of a tuple in one slab, and ``sort_ns`` that to sort a row.
    """

    grid: Grid | ZoneOrder
    share: float
    tuple_ns: float
    sort_ns: float = SORT_NS


#: What to choose by, the share of a slab's rows in a tuple's cells, and buckets of each axis.
_Ranked = tuple[float, float, tuple[int, ...]]


@dataclass(frozen=True)
class _Key:
    """The sample of one test: codes of window rows, and ranges of tuples."""

    test: int
    codes: np.ndarray  # of window rows, ascending, without NULL
    low: np.ndarray  # ranges of tuples, as shares of the window's rows
    high: np.ndarray

    @property
    def share(self) -> float:
        return float(np.mean(self.high - self.low)) + 1 / max(len(self.codes), 1)

    def visited(self, buckets: np.ndarray) -> np.ndarray:
        """Mean number of buckets of equal size that a tuple's range touches, by their number."""
        last, first = (
            np.minimum(np.floor(np.multiply.outer(ends, buckets)), buckets - 1)
            for ends in (self.high, self.low)
        )
        return np.mean(last - first, axis=0) + 1


@dataclass(frozen=True)
class Sample:
    """Codes of some window rows and tuples: keys of both sides together may depend on each other.

    Parameters
    ----------
    tests : sequence of int
        Tests that each match passes.
    equal : collection of int
        Tests, out of these, whose bounds are one code for every tuple: equalities.
    codes : sequence of ndarray
        Codes of the window rows, for all tests.
    bounds : sequence of ndarray
        ``lo_0, hi_0, ...`` of the tuples, at least one.
    null : int
        Code of NULL.
    """

    tests: Sequence[int]
    equal: Collection[int]
    codes: Sequence[np.ndarray]
    bounds: Sequence[np.ndarray]
    null: int

    def key(self, test: int) -> _Key:
        """The sample of one test."""
        codes, (low, high) = self.codes[test], self.bounds[2 * test : 2 * test + 2]
        known = np.sort(codes[codes != self.null])
        count = max(len(known), 1)
        low = np.searchsorted(known, low, "left") / count
        return _Key(test, known, low, np.searchsorted(known, high, "right") / count)

    def visited(
        self, bands: Sequence[_Key], buckets: Sequence[int], held: float
    ) -> tuple[float, float]:
        """Mean number of cells with rows that a tuple visits, and its share of so many rows."""
        axes = [_axis(key, n) for key, n in zip(bands, buckets, strict=True)]
        rows = [self._buckets(axis, self.codes[axis.test]) for axis in axes]
        low, high = (
            [self._buckets(axis, self.bounds[2 * axis.test + end]) for axis in axes]
            for end in (0, 1)
        )
        known = np.logical_and.reduce([buckets_of != NO_CELL for buckets_of in rows])
        edges = [np.arange(n + 1) - 0.5 for n in buckets]
        shares = np.histogramdd([buckets_of[known] for buckets_of in rows], edges)[0] / len(known)
        # A cell that has a share of all rows has none of these with a chance of exp(-share * held).
        ranges, share = (
            float(np.mean(_summed(per_cell, low, high)))
            for per_cell in (1 - np.exp(-shares * held), shares)
        )
        return ranges, share

    def _buckets(self, axis: Axis, codes: np.ndarray) -> np.ndarray:
        cells = np.zeros(len(codes), np.uint32)
        axis.add(cells, codes, self.null)
        return cells


def choose(
    sample: Sample,
    rows: int,
    *,
    costs: Costs = CORE,
    admitted: float = math.inf,
    always: bool = False,
    costed: list[Candidate] | None = None,
) -> GridChoice | None:
    """The best grid for slabs of so many rows; None if the keys rule out too little.

    Parameters
    ----------
    sample : Sample
    rows : int
    costs : Costs
    admitted : float
        Rows of a tuple's range, which cuts the rows of a cell where cells are apart or lie by key.
    always : bool
        Whether to choose the grid that rules out most, whatever it costs.
    costed : list of Candidate, optional
        Gets the best grid of each set of keys that was compared.
    """
    keys = [sample.key(test) for test in sample.tests]
    if any(not len(key.codes) for key in keys):
        return None  # nothing but NULL
    hashed = [key for key in keys if key.test in sample.equal]
    bands = sorted((key for key in keys if key.test not in sample.equal), key=lambda key: key.share)
    parts, matched = _parts(hashed, sample.codes, rows)
    held = min(rows, admitted) if costs.apart else rows
    most = max(CELLS_PER_ROW * rows // parts, 1)
    keyed = min(rows, admitted) if hashed else held
    ranking = _Ranking(rows, held, keyed, matched, most, costs, always)
    if costs.apart and bands and not always:
        # In more cells the sample would seem to leave most empty.
        ranking = replace(ranking, most=min(most, max(len(sample.codes[0]) // PER_CELL, 1)))
        pairs = combinations(bands[:MOST_BANDS], min(len(bands), 2))
        compared = [(_measured(pair, sample, ranking), pair) for pair in pairs]
    else:
        axes = tuple(bands[:2])
        compared = [(best, axes) for best in _modelled(axes, ranking)]
    for (cost, share, buckets), axes in compared:
        by = (key.test for key, n in zip(axes, buckets, strict=True) if n > 1)
        tests = (*(key.test for key in hashed), *by)
        if tests and costed is not None:
            costed.append(Candidate("cells", tests, share, cost, SORT_NS))
    (ranked, share, buckets), axes = min(compared, key=lambda entry: entry[0])
    if share > MOST_SHARE and not always:
        return None
    band_axes = tuple(_axis(key, n) for key, n in zip(axes, buckets, strict=True) if n > 1)
    # Between bands a tuple visits neighbouring cells together, which have a key each.
    keyed = bool(hashed) and (costs.apart or not band_axes)
    grid = Grid(
        tuple(key.test for key in hashed), parts.bit_length() - 1, band_axes, sample.null, keyed
    )
    return GridChoice(grid, share, ranked)


@dataclass(frozen=True)
class _Ranking:
    """By what grids of slabs are compared.

    Parameters
    ----------
    rows, held : float
        Rows of a slab, and those of them that its keys have to rule out.
    keyed : float
        As ``held`` for a grid without bands, whose cells may lie by key.
    matched : float
        Share of the rows with the keys for equality of a tuple.
    most : int
        Most cells beside those of the hash.
    """

    rows: int
    held: float
    keyed: float
    matched: float
    most: int
    costs: Costs
    always: bool

    @property
    def sizes(self) -> list[int]:
        """Numbers of buckets of an axis."""
        return [1 << bits for bits in range(min(MOST_BITS, self.most.bit_length() - 1) + 1)]

    def ranked(self, cells: N, ranges: N, share: N) -> tuple[N, N]:
        """Cost by which grids are ranked, and the share of all rows in a tuple's buckets.

        Parameters
        ----------
        cells : int or ndarray
            Cells of each grid, beside those of the hash.
        ranges, share : float or ndarray
            Mean ranges of a tuple, and the share of the rows of its part in its buckets.
        """
        share = share * self.matched
        if self.always:
            return share + cells * 1e-9, share
        # The directory is made anew for each slab; of equally good ones the smallest.
        held = cast("N", self.held + (self.keyed - self.held) * (cells == 1))
        cost = self.costs.total_ns(1, ranges, held * share) + DIRECTORY_NS * cells / self.rows
        return cost, share


def _modelled(bands: Sequence[_Key], ranking: _Ranking) -> list[_Ranked]:
    """The best numbers of buckets, the best of all first, and then with buckets of other bands.

    Bands are taken not to depend on each other.
    """
    sizes = np.array(ranking.sizes)
    numbers = np.array([*product(range(len(sizes)), repeat=len(bands))], np.intp)
    buckets = sizes[numbers]
    cells = buckets.prod(axis=1)
    fits = cells <= ranking.most
    numbers, buckets, cells = numbers[fits], buckets[fits], cells[fits]
    visits = [key.visited(sizes)[chosen] for key, chosen in zip(bands, numbers.T, strict=True)]
    visited = math.prod(visits, start=np.ones(len(cells)))
    ranges = visited if ranking.costs.apart else math.prod(visits[:-1], start=np.ones(len(cells)))
    cost, share = ranking.ranked(cells, ranges, visited / cells)
    order = np.lexsort((*buckets.T[::-1], share, cost))
    _, firsts = np.unique((buckets[order] > 1) @ (1 << np.arange(len(bands))), return_index=True)
    best = order[np.sort(firsts)]
    return [(float(cost[n]), float(share[n]), tuple(buckets[n].tolist())) for n in best]


def _measured(bands: Sequence[_Key], sample: Sample, ranking: _Ranking) -> _Ranked:
    """Better numbers of buckets: one is doubled or halved as long as that is good in the sample."""

    def ranked(buckets: tuple[int, ...]) -> _Ranked:
        ranges, share = sample.visited(bands, buckets, ranking.held)
        return *ranking.ranked(math.prod(buckets), ranges, share), buckets

    sizes = ranking.sizes
    begin = _modelled(bands, ranking)[0][2]
    best, known = ranked(begin), {begin}
    while True:
        now = best[2]
        near = {
            (*now[:d], n, *now[d + 1 :])
            for d in range(len(now))
            for n in (now[d] // 2, now[d] * 2)
            if n in sizes
        }
        near = {buckets for buckets in near - known if math.prod(buckets) <= ranking.most}
        known |= near
        better = min(map(ranked, sorted(near)), default=best)
        if better >= best:
            return best
        best = better


def _summed(cells: np.ndarray, low: Sequence[np.ndarray], high: Sequence[np.ndarray]) -> np.ndarray:
    """Sums over boxes of cells; both ends belong to a box."""
    upto = np.pad(cells, 1)[(slice(None, -1),) * cells.ndim]
    for d in range(cells.ndim):
        upto = upto.cumsum(d)
    sums = np.zeros(len(low[0]))
    for ends in product((0, 1), repeat=cells.ndim):
        at = [h + 1 if end else lo for end, lo, h in zip(ends, low, high, strict=True)]
        sums += (-1) ** (cells.ndim - sum(ends)) * upto[tuple(at)]
    return sums


def _parts(equal: Sequence[_Key], codes: Sequence[np.ndarray], rows: int) -> tuple[int, float]:
    """Parts of the hash of all keys for equality, and the share of rows in a tuple's part."""
    if not equal:
        return 1, 1.0
    sampled = len(codes[0])
    if len(equal) == 1:
        ordered = equal[0].codes[np.newaxis]
        with_null = len(equal[0].codes) < sampled
    else:
        values = np.stack([codes[key.test] for key in equal])
        ordered, with_null = values[:, np.lexsort(values)], False
    different = 1 + with_null + int((ordered[:, 1:] != ordered[:, :-1]).any(axis=0).sum())
    if different * 2 > sampled:  # nearly all differ: so many in a slab are not in the sample
        different = rows
    parts = 1 << max(min(2 * different, rows // PER_PART) - 1, 1).bit_length()
    share = min([key.share for key in equal])
    return parts, max(min(share, 1.0), 1 / parts) if different < rows else 1 / parts


def _axis(key: _Key, buckets: int) -> Axis:
    """Axis whose buckets have about equally many of the sampled rows."""
    codes = key.codes
    base, top = int(codes[0]), int(codes[-1])
    entries = min(MOST_ENTRIES, ENTRIES * buckets)
    shift = max((top - base).bit_length() - (entries.bit_length() - 1), 0)
    at = np.arange(((top - base) >> shift) + 1, dtype=np.float64) * float(1 << shift)
    share = np.interp(at, (codes - codes[0]).astype(np.float64), np.linspace(0, 1, len(codes)))
    table = np.minimum(share * buckets, buckets - 1).astype(np.uint32)
    return Axis(key.test, base, shift, table, buckets)
