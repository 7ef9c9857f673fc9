"""Codes of band tests keep the order of keys: encoders against plain comparison."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.expr.columns import Vector
from penstock.expr.values import order_key
from penstock.host.keys.encoders import (
    OffsetEncoder,
    RankEncoder,
    after,
    bound_codes,
    fit,
    width_for,
)
from penstock.plan.band import Bound
from penstock.program import empty_code, null_code
from penstock.types import BINARY, FLOAT32, FLOAT64, STRING, Type, int_of, integer
from tests.kit.effort import examples
from tests.penstock.kit.dags import vector

WIDTHS = (16, 32, 64)
WIDE = integer(-(1 << 80), 1 << 80)
TOP = (1 << 63) - 1

VALUES: dict[Type, list] = {
    int_of(8): [None, -128, -1, 0, 1, 5, 127],
    int_of(64): [None, -TOP - 1, -TOP, -(1 << 62), -1, 0, 1, 70_000, 1 << 62, TOP - 1, TOP],
    int_of(64, signed=False): [None, 0, 1, TOP, TOP + 1, 2 * TOP + 1],
    WIDE: [None, -(1 << 80), 0, TOP, TOP + 1, 1 << 80],
    FLOAT64: [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.0, 1e300],
    FLOAT32: [None, math.nan, math.inf, -0.0, 0.0, 0.5],
    STRING: [None, "", "a", "ab", "abc", "b", "\u00e9", "\uffff", "\U0001f40d"],
    BINARY: [None, b"", b"a", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff"],
}


def inside(key: Any, bound: Bound, value: Any, sign: int) -> bool:
    """Whether the key is above (sign 1) or below (sign -1) one bound."""
    if key is None or value is None:
        return False
    if bound.after:
        below = key < value or key.startswith(value)
        return below if sign < 0 else not below
    a, b = (value, key) if sign > 0 else (key, value)
    a, b = order_key(a), order_key(b)
    return a < b if bound.open else a <= b


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(list(VALUES)), st.booleans())
def test_codes_decide_as_the_keys_do(seed: int, dtype: Type, stretch: bool) -> None:
    rng = Random(seed)
    values = VALUES[dtype]
    keys = [rng.choice(values) for _ in range(rng.randint(0, 6))]
    window = vector(keys, dtype)
    encoder = fit(window, 64)
    assert encoder.covers(window)
    bits = width_for([encoder], WIDTHS)
    if stretch and isinstance(encoder, OffsetEncoder):
        encoder = encoder.stretched(bits)
        assert encoder.covers(window)
    codes = encoder.keys(window, bits)
    assert [c == null_code(bits) for c in codes.tolist()] == [k is None for k in keys]
    count = 5
    lows, highs = _bounds(rng, dtype, count), _bounds(rng, dtype, count)
    possible = np.array([rng.random() < 0.9 for _ in range(count)])
    placeholder = ops.const(None)
    lo, hi = bound_codes(
        encoder,
        [(Bound(placeholder, o, a), vector(v, dtype)) for o, a, v in lows],
        [(Bound(placeholder, o, a), vector(v, dtype)) for o, a, v in highs],
        possible,
        bits,
    )
    assert (lo <= hi).all()
    for i in range(count):
        found = [bool(lo[i] <= code <= hi[i]) for code in codes]
        wanted = [
            bool(possible[i])
            and key is not None
            and all(inside(key, Bound(placeholder, o, a), v[i], 1) for o, a, v in lows)
            and all(inside(key, Bound(placeholder, o, a), v[i], -1) for o, a, v in highs)
            for key in keys
        ]
        assert found == wanted, (keys, lows, highs, i)
        if lo[i] == empty_code(bits):
            assert hi[i] == empty_code(bits)


def _bounds(rng: Random, dtype: Type, count: int) -> list[tuple[bool, bool, list]]:
    """Up to two bounds: whether it is open, whether it is after a prefix, its values."""
    made = []
    for _ in range(rng.randint(0, 2)):
        ends_prefix = dtype.is_text and rng.random() < 0.4
        made.append(
            (rng.random() < 0.5, ends_prefix, [rng.choice(VALUES[dtype]) for _ in range(count)])
        )
    return made


def test_narrow_ranges_are_offsets_and_others_ranks() -> None:
    assert fit(vector([5, 9], int_of(64)), 16) == OffsetEncoder(5, 4)
    assert isinstance(fit(vector([0, 1 << 16], int_of(64)), 16), RankEncoder)
    assert isinstance(fit(vector([0, (1 << 16) - 3], int_of(64)), 16), OffsetEncoder)
    # Codes are computed in int64, so the range of an offset must fit it, too.
    assert isinstance(fit(vector([-TOP, TOP - 1], int_of(64)), 64), RankEncoder)
    assert isinstance(fit(vector([0.5], FLOAT64), 64), RankEncoder)
    assert isinstance(fit(vector([None], STRING), 64), RankEncoder)


def test_the_narrowest_width_that_holds_every_code() -> None:
    spans = [(65532, 16), (65533, 16), (65534, 32), ((1 << 32) - 3, 32), ((1 << 32) - 2, 64)]
    for span, width in spans:
        assert width_for([OffsetEncoder(0, 3), OffsetEncoder(0, span)], WIDTHS) == width


def test_too_many_distinct_keys() -> None:
    values = vector([k + 0.5 for k in range(1 << 4)], FLOAT64)
    with pytest.raises(DeviceError, match="holds 16 distinct keys, more than codes of 4 bits"):
        fit(values, 4)


def test_new_keys_are_not_covered() -> None:
    ranks = fit(vector([0.5, math.nan], FLOAT64), 64)
    assert ranks.covers(vector([math.nan, None, 0.5], FLOAT64))
    assert not ranks.covers(vector([1.5], FLOAT64))
    offsets = fit(vector([5, 9], int_of(64)), 64)
    assert offsets.covers(vector([7, None], int_of(64)))
    assert not offsets.covers(vector([10], int_of(64)))
    assert not offsets.covers(vector([1 << 70], WIDE))


@pytest.mark.parametrize(
    ("prefix", "wanted"), [(b"ab", b"ac"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"", None)]
)
def test_the_first_text_after_a_prefix(prefix: bytes, wanted: bytes | None) -> None:
    assert after(prefix) == wanted


@pytest.mark.parametrize("different", [3, 4000])
def test_texts_that_are_one_object_have_the_codes_of_equal_ones(different: int) -> None:
    rng = np.random.default_rng(different)
    texts = np.array([f"t{k}" for k in rng.integers(0, different, 4000)], object)
    names = np.unique(texts)
    shared = names[np.searchsorted(names, texts)]
    first, second = shared[::2], np.concatenate([shared, texts])[::2]  # with gaps, and both kinds
    for values in (shared, first, second):
        encoder = fit(Vector(values), 32)
        at = np.searchsorted(np.unique(values), values)
        assert encoder.keys(Vector(values), 32).tolist() == at.tolist()
        bound = Bound(ops.const(None)), Vector(values)
        lo, hi = bound_codes(encoder, [bound], [bound], np.ones(len(values), bool), 32)
        assert lo.tolist() == hi.tolist() == at.tolist()
