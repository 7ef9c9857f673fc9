"""Kept rows of keys that a server was asked for, where keys share a hash."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.host.join.lookup.sought import Seals, has_own_hashes, seals_of_groups
from penstock.host.relation.key_hash import KeyHash
from penstock.plan.lookup import LookupPlan
from penstock.query.compiler import compile_query
from penstock.query.options import QueryOptions


def u64(*values):
    return np.array(values, np.uint64)


def test_another_key_of_a_hash_is_told():
    seals = Seals()
    assert not len(seals.outdated(u64(1, 2), u64(11, 21)))
    seals.note(u64(1, 2), u64(11, 21), lambda hashes: np.zeros(len(hashes), int))
    assert not len(seals.outdated(u64(1, 2, 3), u64(11, 21, 31)))
    assert seals.outdated(u64(1, 2, 1, 3), u64(13, 21, 11, 5)).tolist() == [1]
    seals.note(u64(1), u64(13), lambda hashes: np.zeros(len(hashes), int))
    assert seals.outdated(u64(1, 2), u64(11, 21)).tolist() == [1]


def test_what_is_not_kept_is_forgotten():
    seals, kept = Seals(), set(range(0, 1000, 10))

    def find(hashes):
        return np.array([0 if int(one) in kept else -1 for one in hashes])

    for first in range(0, 400_000, 40_000):
        hashes = np.arange(first, first + 40_000, dtype=np.uint64)
        seals.note(hashes, hashes | np.uint64(1), find)
        assert len(seals._hashes) <= 2 * len(kept) + (1 << 16) + 40_000
        some = np.array(sorted(kept), np.uint64)
        assert not len(seals.outdated(some, some | np.uint64(1)))
        assert len(seals.outdated(some, some | np.uint64(2))) == len(kept)


def test_several_keys_of_a_hash_have_a_seal_of_none():
    group = np.array([2, 0, 1, 2, 0, 1])
    assert seals_of_groups(u64(9, 5, 7, 11, 5, 7), group).tolist() == [5, 7, 0]
    assert len(seals_of_groups(u64(), np.zeros(0, int))) == 0


@pytest.mark.parametrize(
    ("condition", "key", "bits", "is_told"),
    [
        ("o.small = c.id", ("id",), 64, True),
        ("o.small + 1 = 2 * c.id", ("id",), 64, True),
        ("o.day = c.day", ("day",), 64, True),
        ("o.real = c.real", ("real",), 64, True),
        ("o.small = c.id", ("id",), 8, False),
        ("o.text = c.text", ("text",), 64, False),
        ("o.unsigned = c.id", ("id",), 64, False),
        ("o.wide = c.wide", ("wide",), 64, False),
        ("o.small = c.id AND o.day = c.day", ("id", "day"), 64, False),
    ],
)
def test_who_has_a_hash_of_its_own(condition, key, bits, is_told):
    types = {
        "id": pa.int64(), "small": pa.int32(), "day": pa.date32(), "real": pa.float32(),
        "text": pa.string(), "unsigned": pa.uint64(), "wide": pa.decimal128(30, 0),
    }  # fmt: skip
    schema = pa.schema(list(types.items()))
    query = f"SELECT o.id FROM o JOIN c ON {condition}"
    options = QueryOptions(relation="c", time_zone="UTC")
    plan = LookupPlan(compile_query(query, {"o": schema, "c": schema}, options), "c", key)
    assert has_own_hashes(plan, KeyHash(f"splitmix64-1/{bits}")) == is_told
