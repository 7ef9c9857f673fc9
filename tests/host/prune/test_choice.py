"""The choice of cells: never an error, never too many cells, and cells that help."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.cut import spread
from penstock.host.device.storage import key_dtype
from penstock.host.prune.choice import (
    CELLS_PER_ROW,
    CORE,
    Costs,
    GridChoice,
    Sample,
    choose,
    costs_of,
)
from penstock.host.prune.ordering import SlabOrdering
from penstock.program import empty_code, null_code
from tests.kit.effort import examples

BITS = st.sampled_from([16, 32, 48, 64])
#: Of a core, of a device of one unit that is given ranges, and of boards.
COSTS = (
    CORE,
    costs_of(searches=False, units=1, speed=0.5),
    *(costs_of(searches=False, units=units, speed=1.0) for units in (64, 512)),
)


def chosen(
    tests: Sequence[int],
    codes: Sequence[np.ndarray],
    bounds: Sequence[np.ndarray],
    *given: int,
    costs: Costs = CORE,
    admitted: float = math.inf,
    always: bool = False,
) -> GridChoice | None:
    """The choice of a grid, with equalities as the bounds have them."""
    equal = [d for d in tests if np.array_equal(bounds[2 * d], bounds[2 * d + 1])]
    options = {"costs": costs, "admitted": admitted, "always": always}
    rows, null = given
    return choose(Sample(tests, equal, codes, bounds, null), rows, **options)


def sample(rng: np.random.Generator, bits: int, rows: int) -> np.ndarray:
    """Codes of any shape, NULL among them."""
    largest = null_code(bits) - 2
    kinds = {
        "any": lambda: rng.integers(0, largest, rows, np.uint64, endpoint=True),
        "few": lambda: rng.integers(0, 3, rows).astype(np.uint64),
        "one": lambda: np.full(rows, rng.choice(np.array([0, 5, largest], np.uint64))),
        "ends": lambda: rng.choice(np.array([0, largest], np.uint64), rows),
        "top": lambda: np.uint64(largest) - rng.integers(0, 50, rows).astype(np.uint64),
        "skewed": lambda: np.where(
            rng.random(rows) < 0.97,
            np.uint64(7),
            rng.integers(0, largest, rows, np.uint64, endpoint=True),
        ),
        "powers": lambda: (2.0 ** (rng.random(rows) * (bits - 1))).astype(np.uint64),
        "null": lambda: np.full(rows, null_code(bits), np.uint64),
    }
    codes = kinds[str(rng.choice(list(kinds)))]().astype(key_dtype(bits))
    codes[rng.random(rows) < rng.choice([0.0, 0.2, 0.9])] = null_code(bits)
    return codes


def check(choice: GridChoice, rows: int, codes: list[np.ndarray], bounds: list[np.ndarray]) -> None:
    grid = choice.grid
    assert 1 <= grid.cells <= CELLS_PER_ROW * rows
    assert len(grid.axes) <= 2
    assert choice.share >= 0
    for axis in grid.axes:
        table = axis.table
        assert (np.diff(table.astype(np.int64)) >= 0).all()
        assert table.max() < axis.buckets
        assert axis.test not in grid.hashed
        assert 0 <= axis.shift < 64
    for test in grid.hashed:
        assert (bounds[2 * test] == bounds[2 * test + 1]).all()
    grid.cells_of(codes)
    grid.boxes(bounds)


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, 1 << 32), BITS, st.booleans(), st.sampled_from(COSTS))
def test_any_sample_gives_a_grid_or_none(seed: int, bits: int, always: bool, costs: Costs) -> None:
    rng = np.random.default_rng(seed)
    rows, tuples = (int(rng.choice([1, 2, 3, 17, 300])) for _ in range(2))
    tests = int(rng.integers(1, 5))
    codes, bounds = [sample(rng, bits, rows) for _ in range(tests)], []
    for own in codes:
        ends = np.stack([sample(rng, bits, tuples), rng.choice(own, tuples)])
        ends = np.minimum(ends, key_dtype(bits).type(empty_code(bits) - 1))
        low, high = ends.min(0), ends.max(0)
        if rng.random() < 0.4:
            high = low
        none = rng.random(tuples) < 0.1
        empty = key_dtype(bits).type(empty_code(bits))
        bounds += [np.where(none, empty, low), np.where(none, empty, high)]
    stretch = int(rng.choice([1, 2, 3, 5, 100, 4096, 1 << 20]))
    common = sorted(rng.permutation(tests)[: rng.integers(1, tests + 1)].tolist())
    options = {"costs": costs, "admitted": float(rng.integers(1, 5000)), "always": always}
    choice = chosen(common, codes, bounds, stretch, null_code(bits), **options)
    if choice is not None:
        check(choice, stretch, codes, bounds)
        used = {*choice.grid.hashed, *(axis.test for axis in choice.grid.axes)}
        assert used <= set(common)


def test_nothing_but_null_has_no_grid() -> None:
    null = np.full(9, null_code(32), np.uint32)
    some = np.arange(9, dtype=np.uint32)
    for codes in ([null], [null, some], [some, null]):
        tests = range(len(codes))
        assert (
            chosen(tests, codes, [some] * 2 * len(codes), 100, null_code(32), always=True) is None
        )


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_narrow_ranges_are_cut_finely_and_wide_ones_not_at_all(bits: int) -> None:
    rng = np.random.default_rng(bits)
    keys = rng.integers(0, 60_000, 10_000).astype(key_dtype(bits))
    low = rng.integers(0, 50_000, 200).astype(key_dtype(bits))
    one = low.dtype.type(1)
    near = chosen([0], [keys], [low, low + one], 10_000, null_code(bits))
    assert near is not None
    assert near.share < 0.01
    everything = [low * 0, low * 0 + low.dtype.type(60_000)]
    assert chosen([0], [keys], everything, 10_000, null_code(bits)) is None
    equal = chosen([0], [keys], [low, low], 10_000, null_code(bits))
    assert equal is not None
    assert equal.grid.hashed == (0,)
    assert equal.share < 0.01


def points(rng: np.random.Generator, rows: int) -> list[np.ndarray]:
    """Two keys that depend on each other: all rows lie near a line."""
    along = rng.integers(0, 1 << 20, rows)
    return [(along + rng.integers(0, 1 << 8, rows)).astype(np.uint32) for _ in range(2)]


@pytest.mark.parametrize("costs", COSTS[2:])
def test_boards_get_the_share_of_both_bands_together(costs: Costs) -> None:
    rng = np.random.default_rng(3)
    codes, near = points(rng, 1 << 14), np.uint32(1 << 14)
    low = [own[:200] for own in codes]
    bounds = [low[0], low[0] + near, low[1], low[1] + near]
    rows = 1 << 16
    choice = chosen([0, 1], codes, bounds, rows, null_code(32), costs=costs)
    assert choice is not None
    boxes, cells = choice.grid.boxes(bounds), choice.grid.cells_of(codes)
    outer, inner = np.divmod(cells, np.uint32(choice.grid.inner))
    is_visited = [
        (a <= outer) & (outer <= b) & (c <= inner) & (inner <= d)
        for a, b, c, d in zip(*boxes.arrays, strict=True)
    ]
    assert choice.share == pytest.approx(np.mean(is_visited))
    # By each band alone a tuple would be expected to test the square of that.
    assert choice.share > 1 / 128


def test_boards_get_fewer_cells_than_cores() -> None:
    """A tuple is loaded for each of them, and many units test a row at once."""
    rng = np.random.default_rng(4)
    codes = list(rng.integers(0, 1 << 20, (2, 1 << 14)).astype(np.uint32))
    low = list(rng.integers(0, 1 << 20, (2, 200)).astype(np.uint32))
    bounds = [end for own in low for end in (own, own + np.uint32(4096))]
    cells = []
    for costs in (CORE, *COSTS[2:]):
        choice = chosen([0, 1], codes, bounds, 1 << 18, null_code(32), costs=costs)
        assert choice is not None
        cells.append(choice.grid.cells)
    assert cells[0] > 4 * cells[1] > 4 * cells[2]


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(0, 1 << 32))
def test_an_order_takes_few_bytes_per_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, tests = int(rng.integers(10_000, 40_000)), int(rng.integers(1, 4))
    stretch = int(rng.choice([4096, 10_000, rows]))
    codes = [sample(rng, 32, rows) for _ in range(tests)]
    bounds = []
    for own in codes:
        low = np.minimum(rng.choice(own, 100), np.uint32(empty_code(32) - 9))
        bounds += [low, low + np.uint32(rng.choice([0, 8]))]
    choice = chosen(range(tests), codes, bounds, stretch, null_code(32), always=True)
    if choice is None:
        return
    ordering = SlabOrdering(stretch, 0, choice.grid)
    columns = codes[:1]
    read = lambda a, b: ([c[a:b] for c in columns], [c[a:b] for c in codes])  # noqa: E731
    ordering.extend(rows, read, 1, most=rows)
    whole = rows if rows % stretch == 0 else rows + stretch  # a short stretch has all cells, too
    hashes = 8 * rows if choice.grid.keyed else 0
    assert ordering.ordered().nbytes <= 4 * rows + hashes + 8 * whole + 4096


@pytest.mark.parametrize(("count", "most"), [(1, 5), (5, 1), (5, 5), (1000, 7), (7, 1000)])
def test_samples_are_spread(count: int, most: int) -> None:
    places = spread(0, count, most)
    assert len(places) == min(count, most)
    assert len(np.unique(places)) == len(places)
    assert places.min() >= 0
    assert places.max() < count
