"""Maps of codes to narrow codes: no key of a range is lost, and none is added without need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.storage import key_dtype
from penstock.host.devices.narrow.maps import CodeMap, fit_maps, widened_table
from penstock.program import BandProgram, empty_code, null_code
from tests.kit.effort import examples

SEEDS = st.integers(0, 2**32 - 1)
KEY_BITS = st.sampled_from([17, 32, 33, 64])
BITS = st.sampled_from([2, 3, 5, 8, 16, 24])


def some_codes(rng: np.random.Generator, key_bits: int, rows: int) -> np.ndarray:
    """Codes of rows, of a few values or of all, at either end or between; some are NULL."""
    largest = empty_code(key_bits) - 1
    spread = [3, 40, 100_000, largest][rng.integers(0, 4)]
    base = [0, largest - spread, (largest - spread) // 2][rng.integers(0, 3)]
    values = rng.integers(0, spread, rows, np.uint64, endpoint=True) + np.uint64(base)
    values = np.where(rng.random(rows) < 0.1, np.uint64(null_code(key_bits)), values)
    return values.astype(key_dtype(key_bits))


def some_bounds(
    rng: np.random.Generator, key_bits: int, keys: np.ndarray, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds beside keys, far from them, at the ends of the codes, and of empty ranges."""
    largest, dtype = empty_code(key_bits) - 1, keys.dtype
    near = np.minimum(rng.choice(keys, rows) if len(keys) else np.zeros(rows, dtype), largest)
    shift = rng.integers(0, 3, rows).astype(dtype)
    low = np.where(near >= shift, near - shift, near)
    high = np.minimum(
        low + np.minimum(largest - low, rng.integers(0, 9, rows).astype(dtype)), largest
    )
    low = np.where(rng.random(rows) < 0.1, dtype.type(0), low)
    high = np.where(rng.random(rows) < 0.1, dtype.type(largest), high)
    none = rng.random(rows) < 0.1
    empty = dtype.type(empty_code(key_bits))
    return np.where(none, empty, low).astype(dtype), np.where(none, empty, high).astype(dtype)


def holds(keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return (low[:, None] <= keys) & (keys <= high[:, None])


@settings(max_examples=examples(400), deadline=None)
@given(SEEDS, KEY_BITS, BITS, st.sampled_from([0, 1, 2, 60, 700]), st.sampled_from([0, 50]))
def test_narrow_ranges_hold_the_keys_of_ranges(
    seed: int, key_bits: int, bits: int, fitted: int, later: int
) -> None:
    rng = np.random.default_rng(seed)
    keys = some_codes(rng, key_bits, fitted)
    one = CodeMap(keys, key_bits, bits)
    # Of other values than those that the map knows.
    every = np.concatenate([keys, some_codes(rng, key_bits, later)])
    codes = one.keys(every)
    low, high = some_bounds(rng, key_bits, every, 60)
    narrow_low, narrow_high = one.bounds(low, high)
    in_full, in_narrow = holds(every, low, high), holds(codes, narrow_low, narrow_high)
    assert not (in_full & ~in_narrow).any()
    # Order is kept, and reserved codes keep their names.
    known = every < empty_code(key_bits)
    at = np.argsort(every[known], kind="stable")
    assert (np.diff(codes[known][at].astype(np.int64)) >= 0).all()
    assert (codes[known] < empty_code(bits)).all()
    assert (codes[~known] == null_code(bits)).all()
    none = low == empty_code(key_bits)
    assert (narrow_low[none] == empty_code(bits)).all()
    assert (narrow_high[none] == empty_code(bits)).all()
    # As many cells as values: no key is added.
    if later == 0 and len(np.unique(keys)) < empty_code(bits):
        assert (in_full == in_narrow).all()


def test_small_integers_have_a_frame_and_others_ranks() -> None:
    small = np.arange(500, 9_000, 17, dtype=np.uint32)
    spaced = np.arange(500, 9_000_000, 17_001, dtype=np.uint32)
    many = np.arange(0, 1 << 22, 9, dtype=np.uint32)
    frame, ranks, full = (CodeMap(keys, 32, 16) for keys in (small, spaced, many))
    assert (frame.is_frame, frame.is_full) == (True, False)
    assert (ranks.is_frame, ranks.is_full) == (False, False)
    assert (full.is_frame, full.is_full) == (False, True)
    assert not CodeMap(many, 32, 24).is_full


def test_later_keys_beyond_the_cells_saturate() -> None:
    one = CodeMap(np.arange(1000, 2000, dtype=np.uint32), 32, 16)
    inside, below, above = one.keys(np.array([1500, 3, 1 << 31], np.uint32))
    assert below < inside < above
    low, high = one.bounds(
        np.array([3, 4, 2001, (1 << 31) + 1], np.uint32),
        np.array([3, 900, 1 << 31, 1 << 31], np.uint32) + np.uint32(1),
    )
    assert low[0] <= below <= high[0]
    assert low[1] > high[1] or not low[1] <= below <= high[1]
    assert low[2] <= above <= high[2]
    assert low[3] == high[3] == empty_code(16)


def test_many_rows_are_sampled() -> None:
    (one,) = fit_maps([np.arange(1 << 20, dtype=np.uint32)], 32, 16)
    codes = one.keys(np.arange(1 << 20, dtype=np.uint32))
    assert np.bincount(codes).max() <= 20


@pytest.mark.parametrize("tests", range(1, 5))
def test_the_table_of_narrow_tests_holds_where_a_part_of_the_outcome_does(tests: int) -> None:
    rng = np.random.default_rng(tests)
    for _ in range(50):
        table = int(rng.integers(0, 1 << (1 << tests), dtype=np.uint64))
        wide = widened_table(BandProgram(tests, table))
        for outcome in range(1 << tests):
            parts = (p for p in range(1 << tests) if p & outcome == p)
            assert wide >> outcome & 1 == any(table >> part & 1 for part in parts)


def test_the_table_of_a_monotone_program_is_its_own() -> None:
    assert widened_table(BandProgram(2, 0b1000)) == 0b1000
    assert widened_table(BandProgram(2, 0b1110)) == 0b1110
