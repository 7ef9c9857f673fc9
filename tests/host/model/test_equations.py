"""The paper's equations against plain sums and against its own figures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.host.model.load import (
    evaluations_per_s,
    mean_window_s,
)
from tests.host.model.paper_equations import (
    core_evaluations_per_s,
    cores_needed,
    evaluations_by_slice,
    pipelines_evaluations_per_s,
    sustainable_rate_per_s,
)

RATES = st.floats(1, 1e7)
RATIOS = st.floats(0.05, 20)
WINDOWS = st.floats(1e-3, 1e5)
CAPACITIES = st.floats(1e3, 1e13)


class TestSum:
    @given(
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=30),
        st.integers(1, 40),
    )
    def test_is_the_sum_over_the_window(self, tuples, window):
        found = evaluations_by_slice([r for r, _ in tuples], [s for _, s in tuples], window)
        for at, (r, s) in enumerate(tuples):
            recent = tuples[max(at - window + 1, 0) : at + 1]
            assert found[at] == pytest.approx(
                r * sum(b for _, b in recent) + s * sum(a for a, _ in recent)
            )

    @given(st.integers(1, 1000), st.integers(1, 1000), st.integers(1, 40))
    def test_steady_rates_are_equation_2(self, r, s, window):
        # Slices of a second, so that tuples of a slice are a rate.
        found = evaluations_by_slice([r] * 50, [s] * 50, window)
        assert found[-1] == pytest.approx(evaluations_per_s(r + s, r / s, window))


@given(RATES, RATIOS, st.floats(0, 100), st.floats(0.01, 100))
def test_asymmetric_window_is_what_both_sides_meet(rate, ratio, before, after):
    r, s = rate * ratio / (1 + ratio), rate / (1 + ratio)
    met = r * before * s + s * after * r
    assert evaluations_per_s(rate, ratio, mean_window_s(before, after)) == pytest.approx(met)


@given(RATIOS, RATES, WINDOWS)
def test_ratio_works_both_ways(ratio, rate, window):
    other_way = evaluations_per_s(rate, 1 / ratio, window)
    assert evaluations_per_s(rate, ratio, window) == pytest.approx(other_way)


@given(CAPACITIES, RATIOS, WINDOWS)
def test_equation_5_inverts_equation_2(capacity, ratio, window):
    rate = sustainable_rate_per_s(capacity, ratio, window)
    assert evaluations_per_s(rate, ratio, window) == pytest.approx(capacity)


@given(CAPACITIES, RATES, RATIOS, WINDOWS)
def test_cores_of_equation_4_sustain_the_rate(core, rate, ratio, window):
    cores = cores_needed(rate, ratio, window, core)
    assert sustainable_rate_per_s(cores * core, ratio, window) == pytest.approx(rate)


@given(st.floats(1, 1e4), RATES, RATIOS, WINDOWS)
def test_equation_3_inverts_equation_4(cores, rate, ratio, window):
    core = core_evaluations_per_s(cores, cores, rate, ratio, window)
    assert cores_needed(rate, ratio, window, core) == pytest.approx(cores)


def test_equation_3_takes_the_mean_of_the_two_counts():
    core = core_evaluations_per_s(300, 500, 1e5, 1, 15)
    assert core == pytest.approx(evaluations_per_s(1e5, 1, 15) / 400)


def test_figure_7a():
    """1024 units at 300 MHz pass 10¹¹ evaluations/s; 512 cores of BiStream reach about 6 · 10⁹."""
    capacity = pipelines_evaluations_per_s([(0.33, 300e6, 512), (0.33, 300e6, 512)])
    assert capacity == pytest.approx(1e11, rel=0.05)
    assert capacity / 6e9 == pytest.approx(17, rel=0.05)
    # The window of that figure. A rate is the square root of what it takes.
    rate = sustainable_rate_per_s(capacity, 1, 180)
    assert rate == pytest.approx(math.sqrt(2 * capacity / 180))
