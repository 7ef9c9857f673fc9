"""Shares of Zipf distributions and pages wanted, beside the numbers of paper 5's facts, G."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.host.lookup.model import ceiling
from penstock.host.lookup.zipf import harmonic, pages_wanted, top_share

#: p1 of 20 million keys by exponent, with 1, 2, 5 and 10 % of them in memory.
SHARES = {
    0.5: (0.100, 0.141, 0.224, 0.316),
    0.8: (0.379, 0.440, 0.535, 0.619),
    1.0: (0.735, 0.775, 0.828, 0.868),
    1.1: (0.875, 0.898, 0.926, 0.945),
    1.2: (0.952, 0.962, 0.974, 0.981),
}
KEYS = 20_000_000


@pytest.mark.parametrize("exponent", SHARES)
def test_shares_of_the_most_frequent_keys(exponent):
    found = [top_share(KEYS * share, KEYS, exponent) for share in (0.01, 0.02, 0.05, 0.1)]
    assert found == pytest.approx(SHARES[exponent], abs=0.0011)


def test_shares_of_as_many_keys_of_more_and_fewer():
    found = [top_share(200_000, keys, 1.0) for keys in (2e6, 2e7, 1e8)]
    assert found == pytest.approx([0.847, 0.735, 0.673], abs=0.0006)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.3])
@pytest.mark.parametrize("keys", [1, 65_536, 65_537, 300_000])
def test_sums_are_those_of_all_terms(exponent, keys):
    exact = float((np.arange(1, keys + 1, dtype=np.float64) ** -exponent).sum())
    assert harmonic(keys, exponent) == pytest.approx(exact, rel=1e-9)


def test_pages_that_misses_want():
    assert pages_wanted(17_000, 31_250) / 31_250 == pytest.approx(0.42, abs=0.001)
    assert pages_wanted(17_000, 250_000) / 250_000 == pytest.approx(0.066, abs=0.001)
    assert pages_wanted(5, 1) == 1


def test_ceiling_over_meshjoin():
    # 128 MB, 100-byte rows, 1 % of 20 million of them in memory: 20 MB.
    assert ceiling(128e6, 20e6, top_share(200_000, KEYS, 1.0)) == pytest.approx(3.2, abs=0.05)
