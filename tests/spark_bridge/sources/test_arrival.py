"""The order of arrival, without Spark."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from penstock.sim.spark_replay.arrival import ArrivalOrder, arriving

NEVER = np.iinfo(np.int64).min


def drawn(seed: int, count: int, own: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, count // 3, count)) - rng.integers(0, own + 1, count)
    times[rng.random(count) < 0.03] = NEVER
    return times


@pytest.mark.parametrize("disorder", [0, 1, 40])
@pytest.mark.parametrize("own", [0, 7])
@pytest.mark.parametrize("seed", range(5))
def test_pieces_are_the_whole_in_order(disorder, own, seed):
    times = drawn(seed, 500, own)
    arrivals = ArrivalOrder(times, disorder, seed)
    rng = np.random.default_rng(seed)
    found = []
    cuts = np.unique([0, 500, *rng.integers(0, 500, 12)])
    for begin, end in pairwise(cuts):
        piece = arrivals.piece(int(begin), int(end))
        rows = arriving(piece, times[piece.first : piece.last], disorder, seed)
        assert len(rows) == end - begin
        found += list(rows + piece.first)
    assert sorted(found) == list(range(500))
    timed = times[found]
    largest = np.maximum.accumulate(timed)
    behind = (largest - timed)[timed != NEVER]
    assert behind.max() <= disorder + own
    if disorder == 0:
        assert found == list(range(500))
    if disorder == 40 and own == 0:
        assert behind.max() > 20  # it is used


def test_seeds():
    times = np.arange(300)
    orders = [list(ArrivalOrder(times, 20, seed)._row) for seed in (1, 1, 2)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_until():
    arrivals = ArrivalOrder(np.array([1, 5, 5, 9]), 0, 0)
    assert [arrivals.until(t) for t in (0, 1, 5, 8, 9)] == [0, 1, 3, 3, 4]
