"""The hash of keys and of groups."""

from __future__ import annotations

import numpy as np

from penstock.expr.columns import Vector
from penstock.host.keys.hashing import hash_groups, hash_keys, mix
from penstock.host.keys.splitmix import mixed

ROWS = 1_000


def columns(rng: np.random.Generator, *valid: np.ndarray | None) -> list[Vector]:
    texts = np.array([f"text {n}" for n in rng.integers(0, 50, ROWS)], object)
    values = rng.integers(-9, 9, ROWS), rng.normal(size=ROWS).round(), texts
    return [Vector(each, known) for each, known in zip(values, valid, strict=True)]


def test_groups_without_null_have_the_hash_of_their_keys():
    rng = np.random.default_rng(1)
    keys = columns(rng, None, None, None)
    assert np.array_equal(hash_groups(keys, ROWS), hash_keys(keys, ROWS)[0])
    every = [Vector(key.values, np.ones(ROWS, bool)) for key in keys]
    assert np.array_equal(hash_groups(every, ROWS), hash_keys(keys, ROWS)[0])


def test_null_is_a_group_whatever_value_lies_below():
    rng = np.random.default_rng(2)
    valid = [rng.random(ROWS) < 0.5 for _ in range(3)]
    keys = columns(rng, *valid)
    groups = zip(*(np.where(key.valid, key.values, None).tolist() for key in keys), strict=True)
    pairs = set(zip(groups, hash_groups(keys, ROWS).tolist(), strict=True))
    # A hash for each group, and a group for each hash.
    assert len(dict(pairs)) == len({hashed for _, hashed in pairs}) == len(pairs) < ROWS


def test_mixing_is_the_same_compiled_and_not():
    words = np.random.default_rng(3).integers(0, 1 << 64, 1_000, np.uint64)
    assert [mix(word) for word in words] == mixed(words).tolist()
