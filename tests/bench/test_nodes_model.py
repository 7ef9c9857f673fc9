"""The model of several nodes: one node is the model of one; rows that stay are not paid for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.lookup.nodes_model import (
    NetworkCosts,
    forwarded_share,
    hot_keys,
    predict_nodes,
)
from penstock.host.lookup.algorithm import Algorithm
from penstock.host.lookup.model import Shape, UnitCosts, predict
from penstock.host.lookup.zipf import top_share

COSTS = UnitCosts(1.5e-6, 1e-10, 4e-7, 2e-7, 2e-7, 4e-7, 1e-3)
NETWORK = NetworkCosts(row_s=1e-6, byte_s=1e-10, sent_bytes=8, answer_bytes=100)
SHAPE = Shape(
    rows=2_000_000, row_bytes=100, page_bytes=4096, stream_bytes=28, cached=50_000,
    waiting=100_000, read_bytes=1 << 22, batch=1 << 16,
)  # fmt: skip


@pytest.mark.parametrize("algorithm", Algorithm)
def test_one_node_is_the_model_of_one(algorithm):
    found = predict_nodes(algorithm, SHAPE, COSTS, NETWORK, 1)
    one = predict(algorithm, SHAPE, COSTS)
    assert found.rate == pytest.approx(one.rate)
    assert (found.hits, found.forwarded, found.hot, found.busiest) == (one.hits, 0, 0, 1)
    assert found.network_bytes == 0


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.2])
def test_hot_keys_are_those_above_the_bound(exponent):
    for nodes in (2, 8, 32):
        share = np.arange(1, 100_001) ** -exponent
        share /= share.sum()
        assert hot_keys(100_000, exponent, nodes) == (share > 1 / (32 * nodes)).sum()
    assert hot_keys(100, 0.0, 8) == 100
    assert hot_keys(100, 1.0, 1) == 0


def test_printed_way_forwards_all_that_others_own():
    for nodes in (2, 4, 8):
        found = predict_nodes(Algorithm.AUTO, SHAPE, COSTS, NETWORK, nodes, printed=True)
        assert found.forwarded == forwarded_share(nodes) == (nodes - 1) / nodes
        assert found.network_bytes == found.forwarded * 108
    steep = replace(SHAPE, exponent=1.2)
    printed = predict_nodes(Algorithm.AUTO, steep, COSTS, NETWORK, 8, printed=True)
    ours = predict_nodes(Algorithm.AUTO, steep, COSTS, NETWORK, 8)
    assert printed.busiest == pytest.approx(2.3, abs=0.1)
    assert ours.busiest < 1.04
    assert ours.forwarded == pytest.approx((1 - ours.hot) * printed.forwarded)
    assert ours.rate > 2 * printed.rate


def test_hot_keys_are_kept_by_all_and_the_others_by_their_owners():
    found = predict_nodes(Algorithm.AUTO, SHAPE, COSTS, NETWORK, 8)
    hot = hot_keys(SHAPE.rows, 1.0, 8)
    kept = hot + 8 * (SHAPE.cached - hot)
    assert found.hits == pytest.approx(top_share(kept, SHAPE.rows, 1.0))
    assert found.hot == pytest.approx(top_share(hot, SHAPE.rows, 1.0))


def test_absent_keys_are_forwarded():
    found = predict_nodes(Algorithm.AUTO, replace(SHAPE, absent=1.0), COSTS, NETWORK, 4)
    assert (found.hot, found.forwarded, found.hits) == (0, 0.75, 0)


def test_more_nodes_do_more_and_each_row_costs_its_way():
    rates = [predict_nodes(Algorithm.AUTO, SHAPE, COSTS, NETWORK, n).rate for n in (1, 2, 4, 8)]
    assert (np.diff(rates) > 0).all()
    free = replace(NETWORK, row_s=0.0, byte_s=0.0)
    dear, cheap = (predict_nodes(Algorithm.AUTO, SHAPE, COSTS, n, 4) for n in (NETWORK, free))
    assert dear.work_s - cheap.work_s == pytest.approx(dear.forwarded * NETWORK.forward_s)


def test_rows_that_a_stream_keeps_by_itself_are_not_forwarded():
    found = predict_nodes(Algorithm.AUTO, SHAPE, COSTS, NETWORK, 4, entrance=20_000)
    assert found.hot == pytest.approx(top_share(20_000, SHAPE.rows, 1.0))
    assert found.hits == pytest.approx(top_share(20_000 + 4 * 30_000, SHAPE.rows, 1.0))
    assert found.forwarded == pytest.approx(0.75 * (1 - found.hot))


def test_each_batch_makes_a_request_to_each_other_node():
    dear = replace(NETWORK, message_s=1e-3)
    for nodes in (1, 2, 8):
        one, other = (
            predict_nodes(Algorithm.AUTO, SHAPE, COSTS, n, nodes) for n in (NETWORK, dear)
        )
        assert other.work_s - one.work_s == pytest.approx((nodes - 1) * 1e-3 / SHAPE.batch)
