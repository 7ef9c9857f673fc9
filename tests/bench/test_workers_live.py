"""Streams that bench/workers pushes to, short, and Spark's own stream of groups."""

from __future__ import annotations

import pytest

from bench.workers import live
from bench.workers.jobs import nb7, ysb


@pytest.mark.slow
def test_a_stream_is_pushed_to_between_checkpoints():
    found = live.kept(keys=5000, seconds=1.0, every_s=0.25)
    assert found.rows > live.BATCH_ROWS
    assert found.seconds >= 1.0
    # One at the end in any case.
    assert found.checkpoints >= 2


@pytest.mark.slow
def test_delays_are_those_of_all_groups():
    keys, window_ms = 20, 100
    found = live.delays(keys, window_ms, latency_s=0.05, rate=20_000, seconds=1.0)
    # In each window are 2,000 rows, so no key is without one; the last row completes the tenth.
    assert found.count == keys * 10
    assert found.rate == 20_000
    assert 0 < found.p50 <= found.p99 <= found.largest


@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_delays_are_those_of_all_pairs(workers):
    found = live.pair_delays(workers, rate=2_000, seconds=1.0)
    # Of four million pairs within a second of each other, five in a hundred thousand match.
    assert 100 < found.count < 400
    assert found.rate == 4_000
    assert 0 < found.p50 <= found.p99 <= found.largest


@pytest.mark.slow
@pytest.mark.parametrize(
    "job", [ysb(40_000, ads=3000), nb7(40_000, auctions=3000)], ids=["ysb", "nb7"]
)
def test_spark_keeps_all_groups(job):
    spark_side = pytest.importorskip("bench.workers.spark_side", reason="a peer")
    with spark_side.session() as spark:
        rates = dict(spark_side.rates(spark, job, 2))
    assert set(rates) == set(spark_side.STORES)
    assert all(rate > 0 for rate in rates.values())
