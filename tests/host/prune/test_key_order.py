"""Rows by key inside their cells: a tuple visits those of its own key in its range, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.prune.cells import Grid, highest_digit, sort_by_cell, sort_keys
from penstock.program import BandProgram, Mode, null_code
from tests.host.kit.folds import check_folds
from tests.host.kit.searches import Search, axis_of, ordered_rows, run_folds, run_pairs, walked
from tests.host.kit.tasks import Join
from tests.kit.effort import examples

SEEDS = st.integers(0, 1 << 32)
NULL = null_code(32)
#: An equality, and a band beside it.
PROGRAM = BandProgram(2, 0b1000, 32)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with open_device("cpu", threads=2) as device:
        yield device


def drawn(rng: np.random.Generator, *, has_axis: bool) -> Search:
    """Few keys in fewer parts, some of them NULL; ranges of any length, in any order."""
    window, tuples = int(rng.integers(1, 1500)), int(rng.integers(1, 40))
    values = int(rng.choice([1, 2, 3, 10, 2000]))
    keys = [rng.integers(0, most, window).astype(np.uint32) for most in (values, 1000)]
    for key in keys:
        key[rng.random(window) < rng.choice([0.0, 0.2])] = NULL
    own = rng.integers(0, values + 1, tuples).astype(np.uint32)
    low = rng.integers(0, 1000, tuples).astype(np.uint32)
    stream = [own, own, low, low + rng.integers(0, 500, tuples).astype(np.uint32)]
    start = rng.integers(0, window + 1, tuples)
    end = rng.integers(start, window + 1)
    if rng.random() < 0.3:
        start, end = start * 0, end * 0 + window
    axes = (axis_of(rng, 1, keys[1], int(rng.integers(1, 9))),) if has_axis else ()
    grid = Grid((0,), int(rng.integers(0, 5)), axes, NULL, keyed=True)
    rows = int(rng.choice([1, 7, 64, 500, window]))
    first = int(rng.choice([0, rows * (window // rows // 3)]))
    ordered = ordered_rows(keys, keys, grid, first, window, rows, int(rng.integers(1, 3)))
    join = Join(PROGRAM, keys, stream, start, end)
    return Search(join, grid, grid.cells_of(keys), ordered, grid.boxes(stream))


def equal_pairs(search: Search) -> int:
    """Pairs of equal keys in the tuples' ranges, by brute force."""
    join, count = search.join, 0
    key, own = join.window[0], join.stream[0]
    for i, (low, high) in enumerate(zip(join.start, join.end, strict=True)):
        low = max(low, search.ordered.first)
        count += int((key[low:high] == own[i]).sum())
    return count


@settings(max_examples=examples(200), deadline=None)
@given(SEEDS, st.booleans())
def test_pairs_of_equal_keys_in_range_are_all_that_is_visited(seed: int, apart: bool) -> None:
    search = drawn(np.random.default_rng(seed), has_axis=False)
    found = sum(high - low for _, low, high, _ in walked(search, apart=apart, most=5))
    assert found == equal_pairs(search)


@settings(max_examples=examples(80), deadline=None)
@given(SEEDS, st.booleans())
def test_results_and_tests_are_those_of_brute_force(
    device: Device, seed: int, has_axis: bool
) -> None:
    search = drawn(np.random.default_rng(seed), has_axis=has_axis)
    kernel = device.open(PROGRAM, frozenset({Mode.PAIRS, Mode.COUNT}))
    pairs, evaluations, _ = run_pairs(kernel, search, 64)
    np.testing.assert_array_equal(pairs, search.pairs())
    assert evaluations == search.admitted().sum() <= equal_pairs(search)
    assert has_axis or evaluations == equal_pairs(search)
    folds, tested = run_folds(kernel, search, Mode.COUNT)
    check_folds(folds, search.join, Mode.COUNT, pairs + np.array([0, search.ordered.first]))
    assert tested == evaluations
    kernel.close()


@settings(max_examples=examples(150), deadline=None)
@given(SEEDS)
def test_rows_of_a_cell_are_sorted_by_hash_and_then_by_position(seed: int) -> None:
    """Hashes that differ in few bits, or in one digit alone."""
    rng = np.random.default_rng(seed)
    rows, bits = int(rng.choice([0, 1, 20, 300, 5000])), int(rng.integers(0, 9))
    width, shift = int(rng.integers(1, 65)), int(rng.integers(0, 64))
    hashes = rng.integers(0, (1 << width) - 1, rows, np.uint64, endpoint=True) << np.uint64(shift)
    if rng.random() < 0.5:
        hashes = rng.choice(hashes[:5], rows) if rows else hashes
    cells = (hashes >> np.uint64(64 - bits) if bits else hashes * np.uint64(0)).astype(np.uint32)
    starts, order = np.empty((1 << bits) + 2, np.uint32), np.empty(rows, np.uint32)
    sort_by_cell(cells, starts, order)
    found = np.empty(rows, np.uint64)
    middle = (1 << bits) // 2
    for low, high in ((0, middle), (middle, 1 << bits)):
        sort_keys(hashes, starts, low, high, order, found, highest_digit(bits))
    wanted = np.lexsort((np.arange(rows), hashes))
    np.testing.assert_array_equal(order, wanted)
    np.testing.assert_array_equal(found, hashes[wanted])
