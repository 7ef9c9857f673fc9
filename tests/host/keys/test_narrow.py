"""Narrow codes: in the order of the codes, whatever the sample that they were made from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.storage import key_dtype
from penstock.host.keys.narrow import NarrowCodes
from penstock.program import empty_code, null_code
from tests.kit.effort import examples

SEEDS = st.integers(0, 1 << 32)
KEY_BITS = st.sampled_from([2, 3, 11, 16, 24, 32, 33, 64])
BITS = st.integers(2, 16)


def some_codes(rng: np.random.Generator, key_bits: int, rows: int) -> np.ndarray:
    """Codes of rows: of all sizes, skewed, few, of one value; with both ends and NULL."""
    largest = empty_code(key_bits) - 1
    kind = rng.integers(0, 5)
    if kind == 0:
        values = rng.integers(0, largest, rows, np.uint64, endpoint=True)
    elif kind == 1:
        values = (2.0 ** (rng.random(rows) * (key_bits - 1))).astype(np.uint64)
    elif kind == 2:
        values = rng.choice(rng.integers(0, largest, 3, np.uint64, endpoint=True), rows)
    elif kind == 3:
        values = np.full(rows, rng.integers(0, largest, dtype=np.uint64, endpoint=True))
    else:
        values = np.uint64(largest) - rng.integers(0, min(9, largest + 1), rows).astype(np.uint64)
    ends = np.array([0, largest, empty_code(key_bits), null_code(key_bits)], np.uint64)
    is_end = rng.random(rows) < 0.2
    values = np.where(is_end, rng.choice(ends, rows), np.minimum(values, np.uint64(largest)))
    return values.astype(key_dtype(key_bits))


def below(codes: np.ndarray, key_bits: int) -> np.ndarray:
    return codes[codes < empty_code(key_bits)]


@settings(max_examples=examples(400), deadline=None)
@given(SEEDS, KEY_BITS, BITS, st.sampled_from([0, 1, 2, 50, 3000]))
def test_narrow_codes_are_ranks_among_the_edges(
    seed: int, key_bits: int, bits: int, rows: int
) -> None:
    rng = np.random.default_rng(seed)
    narrow = NarrowCodes.fit(some_codes(rng, key_bits, rows), key_bits, bits)
    edges = narrow.edges
    assert len(edges) <= max(empty_code(bits) - 1, 0)
    assert (edges[1:] > edges[:-1]).all()
    near = np.concatenate([edges, edges - edges.dtype.type(1), edges + edges.dtype.type(1)])
    codes = np.concatenate([below(near, key_bits), below(some_codes(rng, key_bits, 200), key_bits)])
    assert narrow.encode(codes).tolist() == np.searchsorted(edges, codes, "right").tolist()


@settings(max_examples=examples(200), deadline=None)
@given(SEEDS, KEY_BITS, BITS)
def test_rows_within_bounds_are_within_their_narrow_codes(
    seed: int, key_bits: int, bits: int
) -> None:
    rng = np.random.default_rng(seed)
    narrow = NarrowCodes.fit(some_codes(rng, key_bits, 100), key_bits, bits)
    key, low, high = (some_codes(rng, key_bits, 300) for _ in range(3))
    is_in = (low <= key) & (key <= high)
    passes = (narrow.encode(low) <= narrow.encode(key)) & (
        narrow.encode(key) <= narrow.encode(high)
    )
    assert passes[is_in].all()


@pytest.mark.parametrize(("key_bits", "bits"), [(16, 2), (16, 16), (32, 16), (64, 11), (12, 10)])
def test_reserved_codes_have_reserved_narrow_codes(key_bits: int, bits: int) -> None:
    largest = empty_code(key_bits) - 1
    codes = np.array([largest, largest + 1, largest + 2], key_dtype(key_bits))
    for sample in (codes, codes[:0]):
        narrow = NarrowCodes.fit(sample, key_bits, bits).encode(codes).tolist()
        assert narrow[0] < empty_code(bits)
        assert narrow[1:] == [empty_code(bits), null_code(bits)]


def test_the_rows_of_a_narrow_code_are_few_however_skewed() -> None:
    rng = np.random.default_rng(5)
    skewed = (2.0 ** (20 + rng.random(1 << 15) * 40)).astype(np.uint64)
    narrow = NarrowCodes.fit(skewed, 64, 8).encode(skewed)
    assert np.bincount(narrow).max() <= 3 * (1 << 15) / 254


def test_a_value_of_many_rows_has_a_narrow_code_to_itself() -> None:
    rng = np.random.default_rng(6)
    keys = rng.integers(0, 1 << 32, 1 << 14, np.uint32) & np.uint32(0xFFFF_FFF0)
    keys[::2] = 77_777
    narrow = NarrowCodes.fit(keys, 32, 10)
    around = narrow.encode(np.array([77_776, 77_777, 77_778], np.uint32)).tolist()
    assert around[0] < around[1] < around[2]
