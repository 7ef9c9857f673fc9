"""Cells: a row in a tuple's ranges lies in a cell that the tuple visits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.storage import key_dtype
from penstock.host.prune.cells import NO_CELL, Axis, Grid, sort_by_cell
from penstock.program import null_code
from tests.host.kit.searches import axis_of
from tests.kit.effort import examples

SEEDS = st.integers(0, 1 << 32)
BITS = st.sampled_from([16, 24, 32, 64])


def codes_of(rng: np.random.Generator, bits: int, rows: int) -> np.ndarray:
    """Codes of window rows: both ends, skewed, or of one value; without NULL."""
    largest = null_code(bits) - 2
    kind = rng.integers(0, 5)
    if kind == 0:
        values = rng.integers(0, largest, rows, np.uint64, endpoint=True)
    elif kind == 1:
        values = rng.choice(np.array([0, 1, largest - 1, largest], np.uint64), rows)
    elif kind == 2:
        values = np.full(rows, rng.integers(0, largest, dtype=np.uint64, endpoint=True))
    elif kind == 3:
        values = (2.0 ** (rng.random(rows) * (bits - 1))).astype(np.uint64)
    else:
        values = np.uint64(largest) - rng.integers(0, 9, rows).astype(np.uint64)
    return values.astype(key_dtype(bits))


@settings(max_examples=examples(300), deadline=None)
@given(SEEDS, BITS)
def test_rows_in_range_lie_in_the_box(seed: int, bits: int) -> None:
    rng = np.random.default_rng(seed)
    rows, tuples, tests = 60, 30, 4
    null = null_code(bits)
    codes, bounds = [], []
    is_equality = [bool(rng.random() < 0.5) for _ in range(tests)]
    for d in range(tests):
        own = codes_of(rng, bits, rows)
        ends = np.stack([codes_of(rng, bits, tuples), rng.choice(own, tuples)])
        low = ends.min(0)
        high = low.copy() if is_equality[d] else ends.max(0)
        if is_equality[d]:  # mostly those of some row
            low = high = np.where(rng.random(tuples) < 0.8, ends[1], low)
        own[rng.random(rows) < 0.15] = null
        codes.append(own)
        bounds += [low, high]
    hashed = tuple(d for d in range(tests) if is_equality[d] and rng.random() < 0.7)
    axes = tuple(
        axis_of(rng, int(d), codes[d][codes[d] != null], int(rng.integers(1, 20)))
        for d in rng.permutation([d for d in range(tests) if d not in hashed])[: rng.integers(0, 3)]
    )
    grid = Grid(hashed, int(rng.integers(0, 6)) if hashed else 0, axes, null)
    cells, boxes = grid.cells_of(codes), grid.boxes(bounds)
    assert cells.dtype == np.uint32
    used = {*hashed, *(axis.test for axis in axes)}
    is_null = np.zeros(rows, bool)
    for d in used:
        is_null |= codes[d] == null
    np.testing.assert_array_equal(cells == NO_CELL, is_null)
    assert (cells[~is_null] < grid.cells).all()
    assert grid.cells == grid.outer * grid.inner
    assert (boxes.outer_low <= boxes.outer_high).all()
    assert (boxes.outer_high < grid.outer).all()
    assert (boxes.inner_low <= boxes.inner_high).all()
    assert (boxes.inner_high < grid.inner).all()
    match = np.ones((tuples, rows), bool)
    for d in used:
        low, high = bounds[2 * d][:, None], bounds[2 * d + 1][:, None]
        match &= (low <= codes[d]) & (codes[d] <= high) & (codes[d] != null)
    outer, inner = np.divmod(cells.astype(np.int64), grid.inner)
    visits = (boxes.outer_low[:, None] <= outer) & (outer <= boxes.outer_high[:, None])
    visits &= (boxes.inner_low[:, None] <= inner) & (inner <= boxes.inner_high[:, None])
    assert not (match & ~visits).any()
    assert not (visits & is_null).any()


def test_a_grid_without_axes_has_one_cell() -> None:
    grid = Grid((), 0, (), null_code(16))
    codes = [np.array([0, 7, null_code(16)], np.uint16)]
    assert (grid.cells, grid.inner, grid.outer) == (1, 1, 1)
    assert grid.cells_of(codes).tolist() == [0, 0, 0]
    boxes = grid.boxes([codes[0], codes[0]])
    assert all(own.tolist() == [0, 0, 0] for own in boxes.arrays)


def test_a_hash_takes_all_its_keys() -> None:
    """Rows of one key differ by another one; equal rows never do."""
    rng = np.random.default_rng(1)
    grid = Grid((0, 2), 6, (), null_code(32))
    codes = [rng.integers(0, 50, 5000).astype(np.uint32) for _ in range(3)]
    cells = grid.cells_of(codes)
    assert len(np.unique(cells)) == 64
    for key in (0, 2):
        assert len(np.unique(cells[codes[key] == 3])) > 8
    same = {}
    for cell, *keys in zip(cells.tolist(), codes[0].tolist(), codes[2].tolist(), strict=True):
        assert same.setdefault(tuple(keys), cell) == cell
    # Neighbours are spread evenly.
    counts = np.bincount(
        Grid((0,), 6, (), null_code(32)).cells_of([np.arange(6400, dtype=np.uint32)])
    )
    assert counts.max() < 4 * 100


def test_an_axis_finds_the_buckets_of_its_table() -> None:
    table = np.array([0, 0, 2, 3], np.uint32)
    axis = Axis(0, 100, 3, table, 4)
    codes = np.array([0, 99, 100, 107, 108, 115, 116, 123, 124, 131, 132, 65533, 65535], np.uint16)
    cells = Grid((), 0, (axis,), 65535).cells_of([codes])
    assert cells[:-1].tolist() == [0, 0, 0, 0, 0, 0, 2, 2, 3, 3, 3, 3]
    assert cells[-1] == NO_CELL


@pytest.mark.parametrize("count", [1, 2, 9, 300])
def test_rows_are_sorted_by_cell_and_then_by_position(count: int) -> None:
    rng = np.random.default_rng(count)
    for rows in (0, 1, 2, 50, 1000):
        cells = rng.integers(0, count, rows).astype(np.uint32)
        cells[rng.random(rows) < 0.2] = NO_CELL
        starts, order = np.full(count + 2, 77, np.uint32), np.full(rows, 77, np.uint32)
        sort_by_cell(cells, starts, order)
        wanted = np.lexsort((np.arange(rows), np.minimum(cells, count)))
        np.testing.assert_array_equal(order, wanted)
        edges = [(cells < c).sum() for c in range(count + 1)]
        assert starts.tolist() == [*edges, rows]
