"""Places of ascending times, as NumPy finds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.windows.places import MOST_PER_VALUE, ascending_places
from penstock.plan.ranges import Side
from tests.kit.effort import examples

LEAST, MOST = -(1 << 63), (1 << 63) - 1
TIMES = st.lists(st.integers(-9, 9) | st.sampled_from([LEAST, LEAST + 1, MOST]), max_size=60)


@pytest.mark.parametrize("side", ["left", "right"])
@settings(max_examples=examples(100), deadline=None)
@given(TIMES, TIMES)
def test_walk_of_both(side: Side, times: list, values: list) -> None:
    ascending, wanted = np.array(sorted(times), np.int64), np.array(sorted(values), np.int64)
    found = ascending_places(ascending, wanted, side)
    assert found.tolist() == np.searchsorted(ascending, wanted, side).tolist()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("more", [1, MOST_PER_VALUE // 2, 2 * MOST_PER_VALUE])
def test_long_runs_of_times(side: Side, more: int) -> None:
    rng = np.random.default_rng(more)
    values = np.sort(rng.integers(0, 3000, 1000))
    times = np.sort(rng.integers(-100, 3100, more * len(values)))
    found = ascending_places(times, values, side)
    assert found.tolist() == np.searchsorted(times, values, side).tolist()
