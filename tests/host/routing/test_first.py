"""A first look: plans of random loads keep the limit."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.host.routing.loads import Loads
from penstock.host.routing.plan import plan


@pytest.mark.parametrize("seed", range(50))
def test_qmmp_keeps_the_limit(seed):
    rng = np.random.default_rng(seed)
    keys, lanes = 40, int(rng.integers(1, 6))
    held = rng.random((keys, lanes)) < 0.4
    key, lane = np.nonzero(held)
    load = rng.integers(0, 50, len(key))
    loads = Loads(key, lane, load, homes=rng.integers(0, lanes, keys), lanes=lanes)
    made = plan(loads, 0.1, "qmmp")
    assert made.loads.by_lane.max() <= made.limit
    excess = np.maximum(loads.by_lane - made.limit, 0).sum()
    assert made.costs.moved == excess
