"""The keys that rows of a stream look up in a relation."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns, Vector, evaluate_columns
from penstock.plan.lookup import LookupPlan, SoughtKey

from ...relation.key_hash import KeyHash
from ...rows.columns import load


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
    assert plan.sought is not None, "the scan path has a join of its own"
    side = plan.outer
    loaded = load(batch, plan.sought_columns, plan.query.scale_of(side.side), side.alias)
    columns = {(side.side, name): vector for name, vector in loaded.items()}
    keys = [_key_values(one, columns, batch.num_rows) for one in plan.sought]
    return key_hash(keys, batch.num_rows)


def _key_values(sought: SoughtKey, columns: Columns, rows: int) -> Vector:
    """Values of a key column that rows of the stream look up; NULL where there is none."""
    found = evaluate_columns(sought.value, columns, rows)
    if sought.factor == 1 and not sought.constant:
        return found
    values = found.values.astype(object) - sought.constant
    whole = (values % sought.factor == 0).astype(bool)
    return Vector(values // sought.factor, whole if found.valid is None else found.valid & whole)
