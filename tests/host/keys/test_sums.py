"""Bounds that are sums of columns: codes in one pass are those of the evaluated bounds."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expr import ops
from penstock.expr.columns import Vector, evaluate_columns, int_vector
from penstock.expr.node import Expr
from penstock.host.keys import sums
from penstock.host.keys.encoders import OffsetEncoder, bound_codes
from penstock.host.keys.sums import column_words, sum_codes, sums_of
from penstock.plan.band import BandTest, Bound
from penstock.types import STRING, int_of
from tests.kit.effort import examples

TOP = (1 << 63) - 1
X, Y, Z = (ops.column("l", name, int_of(64, nullable=False)) for name in "xyz")
KEY = ops.column("r", "k", int_of(64))
SMALL = [-9, -1, 0, 1, 5, 70_000]
LARGE = [*SMALL, -TOP - 1, -TOP, -(1 << 62), 1 << 62, TOP]


def sum_of(rng: Random, constants: list[int]) -> Expr:
    first = ops.mul(rng.choice((X, Y)), ops.const(rng.choice((-3, -1, 1, 2))))
    second = ops.add(rng.choice((X, Y)), ops.const(rng.choice(constants)))
    return ops.sub(first, second) if rng.random() < 0.5 else ops.add(first, second)


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from([16, 32, 64]), st.booleans())
def test_codes_are_those_of_the_evaluated_bounds(seed: int, bits: int, large: bool) -> None:
    rng = Random(seed)
    values = LARGE if large else SMALL
    rows = rng.randint(0, 9)
    columns = {
        ("l", name): int_vector(np.array([rng.choice(values) for _ in range(rows)], np.int64))
        for name in "xy"
    }
    encoder = OffsetEncoder(0, 5).stretched(bits) if large else OffsetEncoder(-7, 1000)
    lows, highs = (
        [Bound(sum_of(rng, values), open=rng.random() < 0.5) for _ in range(rng.randint(0, 1))]
        for _ in range(2)
    )
    test = sums_of(BandTest(KEY, tuple(lows), tuple(highs)))
    if test is None or not test.fit(columns):
        assert large or not lows + highs or any(b.expr.is_const for b in lows + highs)
        return
    lo, hi = sum_codes(test, encoder, column_words(columns, [test]), bits)
    ends = ([(b, evaluate_columns(b.expr, columns, rows)) for b in own] for own in (lows, highs))
    wanted = bound_codes(encoder, *ends, np.ones(rows, bool), bits)
    assert (lo.tolist(), hi.tolist()) == tuple(codes.tolist() for codes in wanted)
    assert lo.dtype == wanted[0].dtype


@pytest.mark.parametrize(
    "bound",
    [
        Bound(ops.absolute(X)),
        Bound(ops.mul(X, Y)),
        Bound(ops.add(ops.add(X, Y), Z)),
        Bound(ops.const(5)),
        Bound(ops.column("l", "s", STRING), after=True),
    ],
)
def test_other_bounds_are_evaluated(bound: Bound) -> None:
    assert sums_of(BandTest(KEY, (bound,))) is None
    assert sums_of(BandTest(KEY, (Bound(X), bound), (bound,))) is None


def test_conditions_null_and_sums_beyond_int64_are_evaluated() -> None:
    assert sums_of(BandTest(KEY, (Bound(X),), (), (ops.is_null(X),))) is None
    test = sums_of(BandTest(KEY, (Bound(ops.add(X, Y)),)))
    assert test is not None
    some = int_vector(np.array([1, TOP], np.int64))
    none = Vector(np.array([0, 1]), np.array([False, True]), 0, 1)
    zero, wide = (Vector(np.array([0, 0]).astype(dtype)) for dtype in (np.int64, object))
    assert test.fit({("l", "x"): some, ("l", "y"): zero})
    for other in (some, none, wide):
        assert not test.fit({("l", "x"): some, ("l", "y"): other})


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(0, 1 << 32))
def test_long_sums_are_computed_by_two_threads(seed: int) -> None:
    rng = Random(seed)
    rows = rng.choice((64, 65, 200))
    values = np.random.default_rng(seed)
    columns = {
        ("l", "x"): int_vector(values.integers(-99, 99, rows).astype(np.int32)),
        ("l", "y"): int_vector(values.integers(-TOP, TOP, rows) >> rng.choice((1, 40))),
    }
    expr = sum_of(rng, SMALL)
    with patch.object(sums, "LEAST_SHARED", 64), patch.object(sums, "BLOCK", 16):
        found = sums.sum_vector(expr, columns, rows)
    wanted = evaluate_columns(expr, columns, rows)
    if found is None:
        assert wanted.values.dtype == object or not expr.args or not expr.sides
        return
    assert found.valid is None
    assert found.values.tolist() == wanted.values.tolist()
    assert found.lo <= found.values.min()
    assert found.values.max() <= found.hi


def test_short_sums_and_others_are_evaluated() -> None:
    columns = {("l", name): int_vector(np.arange(100)) for name in "xy"}
    assert sums.sum_vector(ops.add(X, Y), columns, 100) is None
    with patch.object(sums, "LEAST_SHARED", 64):
        assert sums.sum_vector(X, columns, 100) is None  # as it is
        assert sums.sum_vector(ops.absolute(X), columns, 100) is None
        assert sums.sum_vector(ops.add(X, Y), columns, 100) is not None
