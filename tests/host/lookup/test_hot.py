"""Hot keys beside exact counts, and how even they make the nodes' rows."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.expr.columns import Vector
from penstock.host.keys.hashing import hash_keys
from penstock.host.lookup.hot import LEAST, SHARE, HotKeys
from penstock.host.lookup.nodes.ring import Node, Ring

KEYS = 200_000


def zipf(exponent: float, rows: int, seed: int) -> np.ndarray:
    total = np.cumsum(np.arange(1, KEYS + 1) ** -exponent)
    chance = np.random.default_rng(seed).random(rows)
    return np.searchsorted(total, chance * total[-1])


def hashes_of(ranks: np.ndarray, seed: int = 0) -> np.ndarray:
    return hash_keys([Vector(ranks), Vector(np.full(len(ranks), seed))], len(ranks))[0]


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.2])
@pytest.mark.parametrize("nodes", [1, 2, 5, 8, 32])
def test_beside_exact_counts(nodes, exponent):
    rows = hashes_of(zipf(exponent, 150_000, seed=nodes))
    hot = HotKeys(nodes)
    for part in np.array_split(rows, 7):
        hot.note(part)
    keys, counts = np.unique(rows, return_counts=True)
    times = counts / len(rows) * SHARE * nodes
    found = hot.are_hot(keys, nodes)
    assert found[times > 1.6].all()
    assert not found[times < 0.6].any()
    assert found.sum() <= SHARE * nodes
    assert hot.memory_bytes <= 2048 * nodes


def test_few_rows_say_nothing():
    hot = HotKeys(2)
    key = np.array([7], np.uint64)
    hot.note(np.repeat(key, int(LEAST)))
    assert not hot.are_hot(key, 2).any()
    hot.note(key)
    assert hot.are_hot(key, 2).all()
    assert len(hot.are_hot(key[:0], 2)) == 0


def test_keys_that_were_hot_are_forgotten():
    hot = HotKeys(8)
    keys = np.arange(2, dtype=np.uint64)
    for was_hot in keys:
        rows = hashes_of(np.arange(40_000))
        rows[::10] = was_hot
        hot.note(rows)
        assert hot.are_hot(keys, 8).tolist() == (keys == was_hot).tolist()


def test_as_many_nodes_as_come():
    hot = HotKeys(2)
    rows = hashes_of(zipf(1.2, 20_000, seed=1))
    hot.note(rows)
    few = hot.are_hot(rows, 2).sum()
    small = hot.memory_bytes
    assert not hot.are_hot(rows, 16).any()  # counts anew
    hot.note(np.tile(rows, 3))
    assert hot.are_hot(rows, 16).sum() > few
    assert hot.memory_bytes > small


def busiest(seed: int, nodes: int = 8, each: int = 20_000) -> tuple[float, float]:
    """Rows of the busiest node over the mean: answered where they arrive if hot, and as printed."""
    rows = hashes_of(zipf(1.2, nodes * each, seed), seed)
    ring = Ring(1, [Node(f"{seed}-{k}", f"tcp://h:{k}") for k in range(nodes)])
    owners = ring.owner_of(rows).reshape(nodes, each)
    answers = np.zeros(nodes)
    for entrance, part in enumerate(rows.reshape(nodes, each)):
        hot = HotKeys(nodes)
        hot.note(part[: each // 2])
        second, owned = part[each // 2 :], owners[entrance, each // 2 :]
        for first in range(0, len(second), 2_000):
            some = second[first : first + 2_000]
            hot.note(some)
            at = np.where(hot.are_hot(some, nodes), entrance, owned[first : first + 2_000])
            answers += np.bincount(at, minlength=nodes)
    return answers.max() / answers.mean(), np.bincount(owners.ravel()).max() / each


def test_nodes_have_as_many_rows():
    ours, printed = np.array([busiest(seed) for seed in range(15)]).T
    assert np.median(ours) <= 1.12
    assert np.quantile(ours, 0.9) <= 1.2
    assert np.median(printed) >= 2
