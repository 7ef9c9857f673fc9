"""The ring of nodes: which keys move, how even it is, and that every machine has the same one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.host.lookup.nodes.ring import POINTS, Node, Ring
from tests.kit.effort import examples

TOP = (1 << 64) - 1
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
KEYS = 100_000
GOLDEN = ["b", "b", "c", "a", "b", "b"]
GOLDEN_ARCS = [
    [13601340893998915, 16308511780682034],
    [44651279305543882, 55772886261715026],
]


def ring_of(*names: str, number: int = 1) -> Ring:
    return Ring(number, [Node(name, f"tcp://{name}:1") for name in names])


def hashes_of(seed: int, count: int = KEYS) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, TOP, count, np.uint64, endpoint=True)


def named(ring: Ring, owners: np.ndarray) -> np.ndarray:
    return np.array([node.name for node in ring.nodes])[owners]


@pytest.mark.parametrize(
    ("name", "address", "message"),
    [
        ("", "tcp://h:1", "'' cannot be the name of a node: take up to 63 letters"),
        ("a b", "tcp://h:1", "'a b' cannot be the name"),
        ("a" * 64, "tcp://h:1", "cannot be the name"),
        ("a", "http://h:1", "node a cannot be at 'http://h:1': give tcp://HOST:PORT or unix:///"),
    ],
)
def test_bad_nodes(name, address, message):
    with pytest.raises(UsageError, match=message):
        Node(name, address)


def test_bad_rings():
    with pytest.raises(UsageError, match="two nodes have one name; there are a, a"):
        Ring(1, [Node("a", "tcp://h:1"), Node("a", "tcp://h:2")])
    with pytest.raises(UsageError, match="nodes a and b are both at tcp://h:1; give each"):
        Ring(1, [Node("a", "tcp://h:1"), Node("b", "tcp://h:1")])
    with pytest.raises(UsageError, match="ring 4 has no node; read the relation itself"):
        Ring(4, ()).owner_of(np.zeros(1, np.uint64))
    with pytest.raises(UsageError, match="there is no node c; there are a, b"):
        ring_of("a", "b").index_of("c")
    with pytest.raises(UsageError, match="node a is at tcp://a:1 already"):
        ring_of("a").add(Node("a", "tcp://h:2"))


def test_nodes_move_by_name():
    ring = ring_of("b", "a")
    assert [node.name for node in ring.nodes] == ["a", "b"]
    moved = ring.add(Node("a", "tcp://h:2"), replace=True)
    assert moved.nodes[0].address == "tcp://h:2"
    assert (moved.owner_of(hashes_of(1)) == ring.owner_of(hashes_of(1))).all()
    assert len(ring.drain("a").drain("b")) == 0


def test_places_never_change():
    """Golden: all releases and machines must agree."""
    ring = ring_of("a", "b", "c", "node-17.example")
    hashes = np.array([0, 1 << 40, 1 << 62, 1 << 63, TOP - 1, TOP], np.uint64)
    assert named(ring, ring.owner_of(hashes)).tolist() == GOLDEN
    assert ring_of("a").arcs_of(0).tolist() == [[0, TOP]]
    assert ring.arcs_of(0)[:2].tolist() == GOLDEN_ARCS


@given(st.lists(NAMES, min_size=1, max_size=32, unique=True), NAMES, st.integers(0, 1 << 32))
@settings(max_examples=examples(60), deadline=None)
def test_only_keys_of_the_new_node_move(names, added, seed):
    names = [name for name in names if name != added] or ["other" if added == "a" else "a"]
    before, after = ring_of(*names), ring_of(*names).add(Node(added, "unix:///new"))
    hashes = np.concatenate([hashes_of(seed, 2_000), after._places, after._places + np.uint64(1)])
    was, now = named(before, before.owner_of(hashes)), named(after, after.owner_of(hashes))
    assert ((was == now) | (now == added)).all()
    back = after.drain(added)
    assert (back.owner_of(hashes) == before.owner_of(hashes)).all()
    assert np.bincount(after.owner_of(hashes), minlength=len(after)).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [2, 3, 5, 8, 13, 21, 31, 32])
def test_few_keys_move_and_nodes_are_even(count, seed):
    names = [f"s{seed}-{k}" for k in range(count)]
    hashes = hashes_of(seed, 400_000)
    ring = ring_of(*names)
    owners = ring.owner_of(hashes)
    keys = np.bincount(owners, minlength=count)
    assert keys.max() <= 1.15 * keys.mean()
    more = ring.add(Node("new", "unix:///new"))
    moved = named(ring, owners) != named(more, more.owner_of(hashes))
    assert moved.sum() <= 1.1 * len(hashes) / (count + 1)


@given(st.lists(NAMES, min_size=1, max_size=8, unique=True), st.integers(0, 1 << 32))
@settings(max_examples=examples(40), deadline=None)
def test_arcs_are_what_a_node_owns(names, seed):
    ring = ring_of(*names)
    hashes = np.concatenate(
        [hashes_of(seed, 500), np.array([0, TOP], np.uint64), ring._places, ring._places + 1]
    )
    owners = ring.owner_of(hashes)
    total = 0
    for node in range(len(ring)):
        arcs = ring.arcs_of(node)
        assert (arcs[:, 0] <= arcs[:, 1]).all()
        assert (arcs[1:, 0] > arcs[:-1, 1] + np.uint64(1)).all()
        at = np.searchsorted(arcs[:, 0], hashes, "right") - 1
        within = (at >= 0) & (hashes <= arcs[np.maximum(at, 0), 1])
        assert (within == (owners == node)).all()
        total += sum(int(high) - int(low) + 1 for low, high in arcs)
        assert len(arcs) <= POINTS + 1
    assert total == 1 << 64
    assert sum(ring.share_of(node) for node in range(len(ring))) == pytest.approx(1)


@given(st.lists(NAMES, min_size=1, max_size=8, unique=True), st.integers(0, 1 << 32))
@settings(max_examples=examples(30), deadline=None)
def test_who_asks_again_asks_each_node_once(names, seed):
    ring = ring_of(*names)
    hashes = np.concatenate([hashes_of(seed, 50), np.array([0, TOP], np.uint64)])
    for hash_ in hashes:
        owner = int(ring.owner_of(hash_))
        asked = [owner]
        while (following := int(ring.next_owner(asked[-1], hash_))) != owner:
            asked.append(following)
        assert sorted(asked) == list(range(len(ring)))
        if len(ring) > 1:  # the next one is who owns the key when the owner is drained
            rest = ring.drain(ring.nodes[owner].name)
            assert rest.nodes[int(rest.owner_of(hash_))] == ring.nodes[asked[1]]
    owners = ring.owner_of(hashes)
    assert (ring.next_owner(0, hashes).shape, owners.dtype) == (hashes.shape, np.int64)
