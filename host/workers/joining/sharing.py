"""Placing of a join's rows on workers: each key has a leader, and heavy cells are shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns
from penstock.plan.query import LEFT, RIGHT, JoinKind, JoinQuery
from penstock.plan.routing_keys import RoutingKeys, routing_keys

from ...keys.hashing import hash_values
from ...routing.base import WORKER_CELLS, base_homes, cells_of_hashes
from ...rows.sides import side_columns
from ..output_order import FEED, PLACE
from .heavy import HeavyCells

#: Number of workers from which on rows are sorted by worker.
_MANY = 8


def shared_keys(query: JoinQuery) -> RoutingKeys | None:
    """Return the keys that matching rows have in common, if each key can be joined by one worker.

    None if there is no equality, if a ROWS window counts rows of all keys, or if a group has rows
    of several keys: then each worker gets all rows, and probes with a share of them.
    """
    if query.sessions is not None:
        return RoutingKeys(*query.sessions.keys, ())
    keys = None if query.is_rows else routing_keys(query.predicate)
    if keys is None or keys.band is not None or not keys.are_keys_of_groups(query):
        return None
    return keys


def side_for_all(query: JoinQuery) -> str | None:
    """Return the side whose rows of a heavy key may be copied to all workers; None if neither may.

    A worker with a row of the other side and all rows of this side can decide alone what that row
    meets, but not which rows of this side meet nothing. Groups of a key need all its pairs in one
    place, and sessions all its rows.
    """
    is_whole = query.aggregation is not None or query.sessions is not None
    if is_whole or query.kind is JoinKind.FULL:
        return None
    return LEFT if query.kind is JoinKind.RIGHT else RIGHT


def cells_of(
    keys: RoutingKeys, side: str, columns: Columns, rows: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the cell of each row's key, as int64, and which rows have one; None if all do.

    Parameters
    ----------
    columns : mapping of (side, name) to Vector
    """
    hashes, valid = hash_values(keys.side_keys(side), columns, rows)
    return cells_of_hashes(hashes, WORKER_CELLS), valid


@dataclass(frozen=True)
class RowLeaders:
    """Worker to which each row of a batch belongs: the leader of its key.

    Parameters
    ----------
    cells : ndarray of int64, shape (rows,)
    worker : ndarray of int64, shape (rows,)
        Of a copied row, the leader of its cell.
    is_copied : ndarray of bool, shape (rows,)
        Which rows all workers get.
    has_key : ndarray of bool, shape (rows,), or None
        Which rows have a key that is not NULL; None if all have.
    """

    cells: np.ndarray
    worker: np.ndarray
    is_copied: np.ndarray
    has_key: np.ndarray | None

    @property
    def loads(self) -> np.ndarray:
        """Cells of the rows that count as load: all whose key is not NULL."""
        return self.cells if self.has_key is None else self.cells[self.has_key]

    def places(self, rank: int) -> np.ndarray:
        """Return the places of the rows that a worker gets, ascending."""
        return np.flatnonzero((self.worker == rank) | self.is_copied)

    def places_by_worker(self, size: int) -> Sequence[np.ndarray]:
        """Return the places of the rows that each of ``size`` workers gets, ascending."""
        if size < _MANY or self.is_copied.any():
            return [self.places(rank) for rank in range(size)]
        # A pass over the rows for each worker would take longer than to sort them by worker.
        order = np.argsort(self.worker.astype(np.min_scalar_type(size)), kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.worker, minlength=size))[:-1])


class Placing:
    """Rule that says which worker gets a row, and which one saves it in checkpoints.

    Parameters
    ----------
    query : JoinQuery
        With event times.
    keys : RoutingKeys or None
        None if all workers get all rows.
    rank, size : int
    heavy : HeavyCells
    """

    def __init__(
        self, query: JoinQuery, keys: RoutingKeys | None, rank: int, size: int, heavy: HeavyCells
    ) -> None:
        self._query, self._keys, self._heavy = query, keys, heavy
        self._rank, self._size = rank, size
        self._homes = base_homes(WORKER_CELLS, size)

    @property
    def is_by_key(self) -> bool:
        """Whether each key has a leader."""
        return self._keys is not None

    def leaders(self, side: str, rows: pa.RecordBatch) -> RowLeaders:
        """Return the leader of each row, by the cell of its key.

        Rows whose key is NULL match nothing; like rows of heavy cells, they are spread by their
        places.
        """
        keys, size = self._keys, self._size
        assert keys is not None
        columns = side_columns(self._query, side, rows, sorted(keys.names(side)))
        cells, valid = cells_of(keys, side, columns, rows.num_rows)
        is_spread, is_copied = self._heavy.spread(side, cells), self._heavy.copied(side, cells)
        if valid is not None:
            is_spread, is_copied = is_spread | ~valid, is_copied & valid
        places = rows.column(PLACE).to_numpy()
        worker = np.where(is_spread, places % size, self._homes[cells])
        return RowLeaders(cells, worker, is_copied, valid)

    def belonging(self, side: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that this worker is to hold."""
        if self._keys is None or self._size == 1:
            return rows
        return rows.take(pa.array(self.leaders(side, rows).places(self._rank)))

    def saves(self, side: str, rows: pa.RecordBatch) -> np.ndarray:
        """Return which of its rows this worker saves, so that exactly one worker saves each row."""
        if self._keys is None:
            numbers = rows.column(PLACE).to_numpy() + rows.column(FEED).to_numpy()
            return numbers % self._size == self._rank
        if not self._heavy.cells:
            return np.ones(rows.num_rows, bool)
        leaders = self.leaders(side, rows)
        return ~leaders.is_copied | (leaders.worker == self._rank)
