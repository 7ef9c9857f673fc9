"""Which worker gets which rows of a join."""

from __future__ import annotations

import numpy as np

from penstock.expr.columns import Columns, evaluate_all
from penstock.plan.query import JoinQuery
from penstock.plan.routing_keys import RoutingKeys, routing_keys

from ...keys.hashing import hash_keys
from ...routing.base import cells_of_hashes
from ...state import PARTITIONS


def shared_keys(query: JoinQuery) -> RoutingKeys | None:
    """Return what is equal wherever rows match, if workers can join the rows of each key alone.

    They cannot where there is no equality, where places in a ROWS window count rows of all keys,
    and where a group has rows of several keys: then each worker gets all rows, and probes with a
    share of them.
    """
    if query.sessions is not None:
        return RoutingKeys(*query.sessions.keys, ())
    found = None if query.is_rows else routing_keys(query.predicate)
    if found is None or found.band is not None or not found.are_keys_of_groups(query):
        return None
    return found


def leaders(
    keys: RoutingKeys, side: str, columns: Columns, places: np.ndarray, size: int
) -> np.ndarray:
    """Return the worker that leads each row: by the partition of its key.

    Parameters
    ----------
    columns : mapping of (side, name) to Vector
    places : ndarray of int64, shape (n,)
        Numbers of the rows, by which those are spread whose key is NULL: they match nothing.
    size : int
        Workers.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    rows = len(places)
    hashes, valid = hash_keys(evaluate_all(keys.of(side), columns, rows), rows)
    found = cells_of_hashes(hashes, PARTITIONS).astype(np.int64) * size // PARTITIONS
    return found if valid is None else np.where(valid, found, places % size)
