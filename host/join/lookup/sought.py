"""Keys that rows of a stream look up in a relation, and keys of the entries of a cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns, Vector, evaluate_columns
from penstock.expr.vector import fits_int64
from penstock.plan.lookup import LookupPlan, SoughtKey

from ...keys.hashing import hash_keys
from ...lookup.hash_table import HashTable
from ...relation.key_hash import KeyHash
from ...rows.columns import load
from ...rows.gather import order_of

_SEAL = np.uint64(0xA0761D6478BD642F)
#: Seal of a hash that several requested keys share; no key has this seal.
_SEVERAL = np.uint64(0)
#: Hashes beyond twice those that are kept, at which the others are forgotten.
_SPARE = 1 << 16


def sought_hashes(
    plan: LookupPlan, key_hash: KeyHash, batch: pa.RecordBatch
) -> tuple[np.ndarray, np.ndarray | None]:
    """The hash of the key that each row looks up, and where there is a key.

    Parameters
    ----------
    plan : LookupPlan
        Of a query that looks rows up by key.
    key_hash : KeyHash
        The relation's.
    batch : RecordBatch
        Rows of the stream, or the columns of them that say what is looked up.

    Returns
    -------
    hashes : ndarray of uint64, shape (rows,)
    valid : ndarray of bool, shape (rows,), or None
        None if all rows have a key.
    """
    return key_hash(_keys(plan, batch), batch.num_rows)


def has_own_hashes(plan: LookupPlan, key_hash: KeyHash) -> bool:
    """Whether each key that may be sought has a hash of its own, as one number of 64 bits has."""
    if plan.sought_keys is None or len(plan.sought_keys) != 1 or not key_hash.is_one_to_one:
        return False
    value = plan.sought_keys[0].value.type
    is_word = value.is_integral and fits_int64(value.lo, value.hi)
    return (is_word and not plan.sought_keys[0].constant) or value.is_float


def sought_seals(plan: LookupPlan, rows: pa.Table | pa.RecordBatch) -> np.ndarray:
    """A second hash of the key that each row looks up; arbitrary where there is none."""
    seals, _ = hash_keys(_keys(plan, rows), rows.num_rows, _SEAL)
    return seals | np.uint64(1)  # 0 is of no key


def sought_keys(
    plan: LookupPlan, rows: pa.Table | pa.RecordBatch, group: np.ndarray
) -> list[Vector]:
    """The keys that rows look up, each once, but for some that have the hash of another one.

    Parameters
    ----------
    plan : LookupPlan
    rows : Table or RecordBatch
        Rows that have a key, or the columns of them that say what is looked up.
    group : ndarray of int, shape (rows,)
        The place of each row's hash among the distinct ones.

    Returns
    -------
    list of Vector
        The values of each column of the key.
    """
    keys = _keys(plan, rows)
    order = order_of(group, rows.num_rows)
    is_new = np.ones(len(order), bool)
    is_new[1:] = np.diff(group[order]) != 0
    for key in keys:
        values = key.values[order]
        is_new[1:] |= values[1:] != values[:-1]
    chosen = order[is_new]
    return [Vector(key.values[chosen], None) for key in keys]


def _keys(plan: LookupPlan, rows: pa.Table | pa.RecordBatch) -> list[Vector]:
    """The key that each row looks up, by its columns."""
    assert plan.sought_keys is not None, "the scan path has a join of its own"
    side = plan.outer
    loaded = load(rows, plan.sought_key_columns, plan.query.scale_of(side.side), side.alias)
    columns = {(side.side, name): vector for name, vector in loaded.items()}
    return [_key_values(one, columns, rows.num_rows) for one in plan.sought_keys]


def _key_values(key: SoughtKey, columns: Columns, rows: int) -> Vector:
    """Values of a key column that rows of the stream look up; NULL where there is none."""
    looked_for = evaluate_columns(key.value, columns, rows)
    if key.factor == 1 and not key.constant:
        return looked_for
    values = looked_for.values.astype(object) - key.constant
    whole = (values % key.factor == 0).astype(bool)
    return Vector(
        values // key.factor, whole if looked_for.valid is None else looked_for.valid & whole
    )


class Seals:
    """Second hashes of keys by their first ones.

    An entry has all rows of a hash, if pages were read. If a server was asked for keys, it has the
    rows of those keys: another key with the same hash has to be asked for by itself.
    """

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)
        self._seals = np.zeros(0, np.uint64)
        self._table = HashTable()

    def outdated(self, hashes: np.ndarray, seals: np.ndarray) -> np.ndarray:
        """Return the hashes that were noted with another key."""
        place = self._table.find(hashes)
        known = np.flatnonzero(place >= 0)
        return np.unique(hashes[known][self._seals[place[known]] != seals[known]])

    def note(
        self, hashes: np.ndarray, seals: np.ndarray, find: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        """Note the keys that were asked for.

        Parameters
        ----------
        hashes, seals : ndarray of uint64
            Distinct hashes.
        find : callable
            Gives the entry of each hash, -1 where there is none.
        """
        place = self._table.find(hashes)
        is_known = place >= 0
        self._seals[place[is_known]] = seals[is_known]
        self._table.add(hashes[~is_known], len(self._hashes))
        self._hashes = np.concatenate([self._hashes, hashes[~is_known]])
        self._seals = np.concatenate([self._seals, seals[~is_known]])
        is_kept = find(self._hashes) >= 0
        if len(is_kept) > 2 * int(is_kept.sum()) + _SPARE:
            is_kept[-len(hashes) :] = True  # they arrive now
            is_kept[place[is_known]] = True
            self._hashes, self._seals = self._hashes[is_kept], self._seals[is_kept]
            self._table.replace(self._hashes)


def seals_of_groups(seals: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the seal of each group of rows, none empty; ``_SEVERAL`` where rows differ."""
    order = order_of(group, len(group))
    firsts = np.flatnonzero(np.diff(group[order], prepend=-1))
    if not len(firsts):
        return seals[:0]
    least = np.minimum.reduceat(seals[order], firsts)
    return np.where(least == np.maximum.reduceat(seals[order], firsts), least, _SEVERAL)
