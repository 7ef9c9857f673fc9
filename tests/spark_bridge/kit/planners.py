"""A planner for tests."""

from __future__ import annotations

import numpy as np

from penstock.host.routing.loads import Loads
from penstock.host.routing.moves import Draft, cut_parts


def at_random(rng: np.random.Generator):
    """A planner that cuts anything, and sends it anywhere; each time otherwise."""

    def planner(loads: Loads, limit: int, is_open: np.ndarray) -> Draft:
        cuts = []
        for part, load in enumerate(loads.load.tolist()):
            left = load
            for lane in rng.permutation(loads.lanes)[: rng.integers(0, 4)].tolist():
                amount = int(rng.integers(0, left + 1))
                left -= amount
                if amount and lane != loads.lane[part]:
                    cuts.append((part, amount, lane))
        return cut_parts(loads, cuts)

    return planner
