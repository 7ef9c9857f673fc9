"""Pairs of several tasks, joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from penstock.host.execute.order import Pairs, joined


@pytest.mark.parametrize("firsts", [(0, 0), (7, 7, 7), (0, 5_000_000_000), (3, 0, 3)])
def test_joined_pairs_are_those_of_each_task(firsts: Sequence[int]) -> None:
    rng = np.random.default_rng(1)
    parts = []
    for k, first in enumerate(firsts):
        i, j = (rng.integers(0, 9, 20 + k).astype(np.uint32) for _ in range(2))
        tuples = None if k % 2 else np.arange(100 * k, 100 * k + 9)
        parts.append(Pairs(i, j, tuples, first))
    both = joined(parts)
    assert both.stream.tolist() == [row for part in parts for row in part.stream.tolist()]
    assert both.positions.tolist() == [at for part in parts for at in part.positions.tolist()]
