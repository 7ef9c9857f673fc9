"""Wide codes of floats: each key has its own, in the keys' order."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.expr import ops
from penstock.expr.columns import Vector
from penstock.host.keys.encoders import RankEncoder, WideEncoder, fit, width_for
from penstock.plan.band import Bound
from penstock.program import null_code

NUMBERS = (
    st.floats()
    | st.floats(-1e9, 1e9)
    | st.integers(-(2**62), 2**62).map(float)
    | st.sampled_from([0.0, -0.0, 1.0, np.nextafter(1, 0), np.nextafter(1, 2), 2.0**-9, 2.0**-8])
)
LISTS = st.lists(NUMBERS, max_size=12).map(lambda each: np.array(each, np.float64))


def order(value: float) -> tuple[bool, float]:
    """What two floats are compared by: NaN is above all, and equal to itself."""
    return (value != value, 0.0 if value != value else value + 0.0)


@pytest.mark.parametrize("is_stretched", [False, True])
@settings(max_examples=150, deadline=None)
@given(keys=LISTS, bounds=LISTS)
@example(keys=np.array([1.0, 2.0**-266]), bounds=np.array([2.0**-264, 2.0**-266, 1e-300]))
@example(keys=np.array([1.5, np.inf, -np.inf]), bounds=np.array([1e300, -1e300, np.inf]))
def test_bounds_hold_the_keys_that_are_inside(keys, bounds, is_stretched):
    encoder = fit(Vector(keys), 64, floats="wide")
    if not isinstance(encoder, WideEncoder):
        assert isinstance(encoder, RankEncoder)  # keys too far from each other
        return
    wider = encoder.stretched(64)
    encoder = wider if is_stretched and wider.covers(Vector(keys)) else encoder
    assert encoder.covers(Vector(keys))
    assert width_for([encoder], (16, 32, 64)) == 64
    codes = encoder.keys(Vector(keys), 64)
    for is_open in (False, True):
        bound = Bound(ops.const(0.0), open=is_open)
        lows, highs = encoder.lo(bound, Vector(bounds)), encoder.hi(bound, Vector(bounds))
        both = encoder.both(bound, Vector(bounds))
        assert np.array_equal(lows, both[0])
        assert np.array_equal(highs, both[1])
        for key, code in zip(map(order, keys.tolist()), codes.tolist(), strict=True):
            assert 0 <= code <= encoder.largest <= null_code(64) - 2
            for end, low, high in zip(map(order, bounds.tolist()), lows, highs, strict=True):
                assert (code >= low) == (key > end if is_open else key >= end)
                assert (code <= high) == (key < end if is_open else key <= end)


def test_keys_that_have_no_code_of_their_own_get_ranks():
    for keys in ([1.0, 1e-90], [1e300], [5e-324, 1.0], [1e-300, 1.7e308]):
        assert isinstance(fit(Vector(np.array(keys)), 64, floats="wide"), RankEncoder)
    assert isinstance(fit(Vector(np.array([0.5])), 32, floats="wide"), RankEncoder)
    for keys in ([], [0.0], [1e-300], [np.nan, np.inf], [1e20, -3.0]):
        assert isinstance(fit(Vector(np.array(keys)), 64, floats="wide"), WideEncoder)


def test_keys_that_follow_are_covered():
    encoder = fit(Vector(np.array([0.3, 1.0])), 64, floats="wide").stretched(64)
    assert encoder.covers(Vector(np.array([-9.5, 0.0, np.nan, np.inf])))
    assert not encoder.covers(Vector(np.array([100.0])))
    assert not encoder.covers(Vector(np.array([1e-200])))
    assert not encoder.covers(Vector(np.array([1])))


def test_null_has_its_code():
    keys = Vector(np.array([1.0, np.nan]), np.array([True, False]))
    assert fit(keys, 64, floats="wide").keys(keys, 64)[1] == null_code(64)
