"""Coarse codes of floats: a range of codes holds all keys of a range of keys."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.expr import ops
from penstock.expr.columns import Vector
from penstock.host.keys.encoders import CoarseEncoder, fit
from penstock.plan.band import Bound
from penstock.program import null_code

NUMBERS = st.floats(width=32) | st.floats() | st.floats(-1, 1) | st.integers(-3, 3).map(float)
KEYS = st.lists(NUMBERS, max_size=20).map(lambda each: np.array(each, np.float64))


def ordered(values: np.ndarray) -> list[tuple[bool, float]]:
    """What two floats are compared by: NaN is above all, and equal to itself."""
    return [(bool(x != x), 0.0 if x != x else float(x)) for x in values]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("is_stretched", [False, True])
@settings(max_examples=60, deadline=None)
@given(fitted=KEYS, keys=KEYS, bounds=KEYS)
def test_no_key_inside_a_bound_has_a_code_outside(fitted, keys, bounds, is_open, is_stretched):
    encoder = fit(Vector(fitted), 32, floats="coarse")
    assert isinstance(encoder, CoarseEncoder)
    encoder = encoder.stretched(32) if is_stretched else encoder
    codes = encoder.keys(Vector(keys), 32).astype(np.int64)
    assert not len(keys) or codes.max() <= encoder.largest <= null_code(32) - 2
    bound = Bound(ops.const(0.0), open=is_open)
    lows, highs = encoder.lo(bound, Vector(bounds)), encoder.hi(bound, Vector(bounds))
    for key, code in zip(ordered(keys), codes, strict=True):
        for end, low, high in zip(ordered(bounds), lows, highs, strict=True):
            assert code >= low or key < end
            assert code <= high or key > end


def test_whole_numbers_bound_floats():
    encoder = fit(Vector(np.array([0.0, 2.0**60])), 32, floats="coarse")
    bound = Bound(ops.const(0))
    ends = np.array([0, 2**53 + 1, 2**63 - 1, -(2**63)])
    lows = encoder.lo(bound, Vector(ends))
    assert (np.diff(lows[[3, 0, 1, 2]]) >= 0).all()
    assert encoder.keys(Vector(np.array([2.0**53 + 2])), 32)[0] >= lows[1]


def test_a_few_keys_far_away_leave_the_others_apart():
    values = np.random.default_rng(0).uniform(0, 1, 100_000)
    values[::1000] = 1e300
    codes = fit(Vector(values), 32, floats="coarse").keys(Vector(values), 32)
    assert len(np.unique(codes)) > 80_000


def test_keys_that_follow_are_covered():
    values = np.random.default_rng(0).uniform(0, 1, 1000)
    encoder = fit(Vector(values), 32, floats="coarse").stretched(32)
    assert encoder.covers(Vector(values + 50))
    assert not encoder.covers(Vector(values + 5000))
    assert encoder.covers(Vector(np.append(values, np.inf)))


def test_rows_are_those_of_every_pair():
    rng = np.random.default_rng(1)

    def side(rows: int) -> pa.Table:
        x, y = rng.normal(0, 1, (2, rows))
        x[::50], y[::70], x[::90] = np.nan, np.inf, -np.inf
        valid = rng.random(rows) < 0.05
        return pa.table({"id": np.arange(rows), "x": pa.array(x, mask=valid), "y": y})

    tables = {"l": side(3000), "r": side(4000)}
    text = (
        "SELECT l.id AS i, r.id AS j FROM l JOIN r "
        "ON sqrt(pow(l.x - r.x, 2) + pow(l.y - r.y, 2)) < 0.02"
    )
    found, expected = (
        penstock.sql(text, tables, pruning=pruning).sort_by(
            [("i", "ascending"), ("j", "ascending")]
        )
        for pruning in (True, False)
    )
    assert found.num_rows > 100
    assert found == expected
