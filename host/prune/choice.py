"""Chooses the cells of a search: by a sample of both sides, and what each step costs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .cells import Axis, Grid

#: Window rows and stream tuples to look at.
SAMPLE_ROWS, SAMPLE_TUPLES = 1 << 14, 1 << 8
#: Most entries of an axis's table, and entries per bucket.
MOST_ENTRIES, ENTRIES = 1 << 16, 8
#: Most cells per row of a slab: a cell takes four bytes of directory.
CELLS_PER_ROW = 2
#: Most buckets of an axis, as a power of two.
MOST_BITS = 16
#: Largest share of the rows left to test for an order to be of use.
MOST_SHARE = 0.75
#: Costs in nanoseconds of one core: to sort a row, to begin a tuple in a slab, to visit a
#: range, and to test a row in a range and in the window as it stands.
SORT_NS, TUPLE_NS, RANGE_NS, SEARCH_NS, SCAN_NS = 25.0, 15.0, 15.0, 0.25, 0.06
#: What a cell per row adds to the time of a tuple: larger directories fit no cache.
DIRECTORY_NS = 8.0


@dataclass(frozen=True)
class Choice:
    """A grid, and the share of a slab's rows that a tuple is expected to test.

    ``tuple_ns`` is the expected time of a tuple in one slab.
    """

    grid: Grid
    share: float
    tuple_ns: float


@dataclass(frozen=True)
class _Key:
    """What the sample says of one test."""

    test: int
    codes: np.ndarray  # of window rows, ascending, without NULL
    low: np.ndarray  # ranges of tuples, as shares of the window's rows
    high: np.ndarray

    @property
    def share(self) -> float:
        return float(np.mean(self.high - self.low)) + 1 / max(len(self.codes), 1)

    def visited(self, buckets: int) -> float:
        """Mean number of buckets of equal size that a tuple's range touches."""
        first, last = np.floor(self.low * buckets), np.floor(self.high * buckets)
        return float(np.mean(np.minimum(last, buckets - 1) - np.minimum(first, buckets - 1))) + 1


def spread(count: int, most: int) -> np.ndarray:
    """At most ``most`` of ``count`` places, at equal distances."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


def cost_ns(visits: float, ranges: float, tested: float) -> float:
    """Expected nanoseconds of some visits of tuples to slabs, their ranges and tests."""
    return TUPLE_NS * visits + RANGE_NS * ranges + SEARCH_NS * tested


def choose(
    tests: Sequence[int],
    equal: Collection[int],
    codes: Sequence[np.ndarray],
    bounds: Sequence[np.ndarray],
    rows: int,
    null: int,
    *,
    always: bool = False,
) -> Choice | None:
    """The best grid for slabs of so many rows; None if the keys rule out too little.

    Parameters
    ----------
    tests : sequence of int
        Tests that each match passes.
    equal : collection of int
        Those of them that ask for one code, of every tuple.
    codes : sequence of ndarray
        Codes of a sample of window rows, for all tests.
    bounds : sequence of ndarray
        ``lo_0, hi_0, ...`` of a sample of tuples, at least one.
    rows : int
    null : int
        Code of NULL.
    always : bool
        Whether to choose the grid that rules out most, whatever it costs.
    """
    keys = [_key(d, codes[d], bounds[2 * d], bounds[2 * d + 1], null) for d in tests]
    hashed = [key for key in keys if key.test in equal]
    bands = sorted((key for key in keys if key.test not in equal), key=lambda key: key.share)[:2]
    parts, matched = _parts(hashed, codes, rows)
    if any(not len(key.codes) for key in keys):
        return None  # nothing but NULL
    best: tuple[float, float, tuple[int, ...]] | None = None
    most = CELLS_PER_ROW * rows // parts
    sizes = [1 << bits for bits in range(min(MOST_BITS, max(most, 1).bit_length() - 1) + 1)]
    visits = [{n: key.visited(n) for n in sizes} for key in bands]
    for buckets in product(sizes, repeat=len(bands)):
        cells = math.prod(buckets)
        if cells > max(most, 1):
            continue
        visited = [own[n] for own, n in zip(visits, buckets, strict=True)]
        share = matched * math.prod(visited) / cells
        cost = cost_ns(1, math.prod(visited[:-1]), rows * share)
        # The directory is made anew for each slab; of equally good ones the smallest.
        rank = share + cells * 1e-9 if always else cost + DIRECTORY_NS * cells / rows
        if best is None or rank < best[0]:
            best = rank, share, buckets
    assert best is not None
    rank, share, buckets = best
    if share > MOST_SHARE and not always:
        return None
    axes = tuple(_axis(key, n) for key, n in zip(bands, buckets, strict=True) if n > 1)
    grid = Grid(tuple(key.test for key in hashed), parts.bit_length() - 1, axes, null)
    return Choice(grid, share, rank)


def _key(test: int, codes: np.ndarray, low: np.ndarray, high: np.ndarray, null: int) -> _Key:
    known = np.sort(codes[codes != null])
    count = max(len(known), 1)
    return _Key(
        test,
        known,
        np.searchsorted(known, low, "left") / count,
        np.searchsorted(known, high, "right") / count,
    )


def _parts(equal: Sequence[_Key], codes: Sequence[np.ndarray], rows: int) -> tuple[int, float]:
    """Parts of the hash of all keys for equality, and the share of rows in a tuple's part."""
    if not equal:
        return 1, 1.0
    sampled = len(codes[0])
    values = np.stack([codes[key.test] for key in equal])
    ordered = values[:, np.lexsort(values)]
    different = 1 + int((ordered[:, 1:] != ordered[:, :-1]).any(axis=0).sum())
    if different * 2 > sampled:  # nearly all differ: so many in a slab are not in the sample
        different = rows
    parts = 1 << max(min(2 * different, rows) - 1, 1).bit_length()
    share = min([key.share for key in equal])
    return parts, max(min(share, 1.0), 1 / parts) if different < rows else 1 / parts


def _axis(key: _Key, buckets: int) -> Axis:
    """Buckets of equally many rows, as far as the sample tells."""
    codes = key.codes
    base, top = int(codes[0]), int(codes[-1])
    entries = min(MOST_ENTRIES, ENTRIES * buckets)
    shift = max((top - base).bit_length() - (entries.bit_length() - 1), 0)
    at = np.arange(((top - base) >> shift) + 1, dtype=np.float64) * float(1 << shift)
    share = np.interp(at, (codes - codes[0]).astype(np.float64), np.linspace(0, 1, len(codes)))
    table = np.minimum(share * buckets, buckets - 1).astype(np.uint32)
    return Axis(key.test, base, shift, table, buckets)
