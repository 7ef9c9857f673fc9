"""What the key-splitting paper compares: each method meets every pair once, also as it grows."""

from __future__ import annotations

import numpy as np
import pytest

from bench.routing.choices import dealt
from bench.routing.claims import Found, claims
from bench.routing.homes import ByHash, ByRing
from bench.routing.methods import JOINS, ByKeys
from bench.routing.nodes import LEFT, RIGHT, Nodes, Whole
from bench.routing.paper import CountRun, JoinRun
from bench.routing.readj import readj
from bench.routing.tpch import KeyStreams, orders, suppliers

BATCHES = 6

CELLS = np.arange(4096)


def played(streams: KeyStreams, method, window: int | None = None) -> Nodes:
    """Both streams through the nodes; a node more after the third micro-batch."""
    nodes = Nodes(streams.keys, streams.band, window)
    for batch in range(BATCHES):
        for side, own in ((LEFT, streams.left), (RIGHT, streams.right)):
            low, high = (len(own) * k // BATCHES for k in (batch, batch + 1))
            nodes.take(method, side, own[low:high], batch)
        method.adapt(nodes)
        if batch == 2:
            method.grow(nodes)
    return nodes


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("query", [suppliers, orders])
def test_every_pair_meets_once(query, name, window):
    streams = query(0.005, 1.2, 3)
    left, right = streams.left, streams.right
    wanted = played(streams, Whole(), window)
    if window is None:
        near = np.abs(np.subtract.outer(left, right)) <= streams.band
        assert wanted.rows == near.sum()
    found = played(streams, JOINS[name](8, streams.keys, streams.band), window)
    assert (found.rows, found.checksum) == (wanted.rows, wanted.checksum)
    assert found.rows > 100


def test_a_broken_route_is_noticed():
    streams = suppliers(0.005, 1.2, 3)
    method = ByKeys("mnrt", 8, streams.keys, 0)
    method.probe = lambda side, keys: method.store(side, keys)  # one lane of a split key
    found, wanted = played(streams, method), played(streams, Whole())
    assert found.checksum != wanted.checksum
    assert found.rows < wanted.rows


def test_readj_moves_and_swaps():
    load = np.array([50, 40, 30, 20, 10, 10])
    node = np.array([0, 0, 0, 1, 1, 1])
    after = readj(load, node, 2, 0.0, 6)
    assert np.bincount(after, load).tolist() == [80, 80]
    # One key with nearly all is not split.
    alone = readj(np.array([900, 50, 50]), np.array([0, 0, 1]), 2, 0.0, 3)
    assert np.bincount(alone, [900, 50, 50]).tolist() == [900, 100]


@pytest.mark.parametrize("name", ["PKG", "D-Choices", "W-Choices"])
def test_choices(name):
    keys = np.where(np.arange(8000) % 2, 7, np.arange(8000) % 500)
    nodes = dealt(name, keys, 500, 8)
    used = len(set(nodes[keys == 7].tolist()))
    # Some of a key's six choices are the same node.
    low, high = {"PKG": (2, 2), "D-Choices": (3, 6), "W-Choices": (8, 8)}[name]
    assert low <= used <= high
    # All other keys have two nodes at most.
    assert all(len(set(nodes[keys == key].tolist())) <= 2 for key in range(7))
    if name == "W-Choices":
        assert np.bincount(nodes).max() <= 1.1 * len(keys) / 8


def test_claims_can_be_held_and_not():
    exponents = (0.0, 0.8, 1.5)

    def runs(times: dict[str, float]) -> dict:
        own = {m: {z: JoinRun(t, t, t) for z in exponents} for m, t in times.items()}
        return {"EQ5": own, "B_NCI": own}

    good = {"MNRT": 1.0, "QMMP": 1.0, "Bi6": 2.0, "Dynamic": 3.0, "Bi": 4.0}
    bad = {name: 5 - value for name, value in good.items()}
    counts = {m: {z: CountRun(1, 1) for z in exponents} for m in ("MNRT", "QMMP", "PKG", "hash")}
    plans = {m: {0.0: 1.0, 0.5: 1.0} for m in ("QMMP", "MNRT", "Readj")}
    for times, is_held in ((good, True), (bad, False)):
        used = {name: [int(10 * value)] for name, value in times.items()}
        found = claims(Found(runs(times), runs(times), used, plans, counts))
        held = {int(text.partition(":")[0]): own for text, own, _ in found}
        assert len(held) == 11
        assert held[1] == held[4] == is_held
        assert held[5]
        assert not held[2]


@pytest.mark.parametrize("base", [ByHash(), ByRing()])
@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 64])
def test_each_lane_gets_about_its_share(base, lanes):
    homes = base.homes(CELLS, lanes)
    assert homes.dtype == np.int64
    share = np.bincount(homes, minlength=lanes) * lanes / len(CELLS)
    assert len(share) == lanes
    assert 0.5 < share.min() <= share.max() < 1.6
    some = np.array([4095, 7, 7, 0])
    assert np.array_equal(base.homes(some, lanes), homes[some])


@pytest.mark.parametrize("lanes", [1, 2, 8, 31])
def test_on_a_ring_cells_move_to_the_new_lane_only(lanes):
    before, after = (ByRing().homes(CELLS, count) for count in (lanes, lanes + 1))
    moved = before != after
    assert set(after[moved].tolist()) == {lanes}
    assert 0.5 < moved.mean() * (lanes + 1) < 1.6
