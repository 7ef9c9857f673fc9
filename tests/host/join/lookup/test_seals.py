"""Kept rows of keys that a server was asked for, where keys share a hash."""

import numpy as np

from penstock.host.join.lookup.seals import Seals, seals_of_groups


def u64(*values):
    return np.array(values, np.uint64)


def test_another_key_of_a_hash_is_told():
    seals = Seals()
    assert not len(seals.others(u64(1, 2), u64(11, 21)))
    seals.note(u64(1, 2), u64(11, 21), lambda hashes: np.zeros(len(hashes), int))
    assert not len(seals.others(u64(1, 2, 3), u64(11, 21, 31)))
    assert seals.others(u64(1, 2, 1, 3), u64(13, 21, 11, 5)).tolist() == [1]
    seals.note(u64(1), u64(13), lambda hashes: np.zeros(len(hashes), int))
    assert seals.others(u64(1, 2), u64(11, 21)).tolist() == [1]


def test_what_is_not_kept_is_forgotten():
    seals, kept = Seals(), set(range(0, 1000, 10))

    def find(hashes):
        return np.array([0 if int(one) in kept else -1 for one in hashes])

    for first in range(0, 400_000, 40_000):
        hashes = np.arange(first, first + 40_000, dtype=np.uint64)
        seals.note(hashes, hashes | np.uint64(1), find)
        assert len(seals._hashes) <= 2 * len(kept) + (1 << 16) + 40_000
        some = np.array(sorted(kept), np.uint64)
        assert not len(seals.others(some, some | np.uint64(1)))
        assert len(seals.others(some, some | np.uint64(2))) == len(kept)


def test_several_keys_of_a_hash_have_a_seal_of_none():
    group = np.array([2, 0, 1, 2, 0, 1])
    assert seals_of_groups(u64(9, 5, 7, 11, 5, 7), group).tolist() == [5, 7, 0]
    assert len(seals_of_groups(u64(), np.zeros(0, int))) == 0
