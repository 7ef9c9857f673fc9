"""The keys that rows of a stream look up in a relation."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns, Vector, evaluate_columns
from penstock.expr.vector import fits_int64
from penstock.plan.lookup import LookupPlan, SoughtKey

from ...keys.hashing import hash_keys
from ...relation.key_hash import KeyHash
from ...rows.columns import load
from ...rows.ordering import order_of

_SEAL = np.uint64(0xA0761D6478BD642F)


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
