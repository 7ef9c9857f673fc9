"""Shards of a batch join by key: rows meet in the lanes that the divided ones' cells have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import Column

from penstock.host.routing.table import RoutingTable
from penstock.plan.query import LEFT

from ..inputs import computed
from ..routing_cells import NO_CELL, CellOf
from .shards import Shards

#: A row's hash has this many bits to choose its lane of a split cell by.
_BITS = 31


@dataclass(frozen=True)
class KeyRoutes:
    """Finds the lanes of each row; travels to the tasks.

    Parameters
    ----------
    cell_of : CellOf
    table : RoutingTable
    is_left : ndarray of bool, shape (cells + 1,)
        Whether a cell's left rows are the divided ones.
    keeps_null : bool
        Whether divided rows with a NULL key go to a lane, as the join decides about them.
    """

    cell_of: CellOf
    table: RoutingTable
    is_left: np.ndarray
    keeps_null: bool

    def lanes(
        self, side: str, cells: np.ndarray, hashes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lanes of rows, as offsets and values of a list; a row that can meet nothing has none.

        A row of a split cell's divided side gets the lane in whose share its hash lies, so a lane
        has its share of the rows up to the chance of hashes, and rows that are equal in all
        columns stay together.

        Parameters
        ----------
        side : str
        cells : ndarray of int64, shape (rows,)
        hashes : ndarray of int64, shape (rows,)
            Of the whole rows; the same whenever a row is read.
        """
        divides = self.is_left if side == LEFT else ~self.is_left
        is_divided = divides[cells] & (cells != NO_CELL)
        is_other = ~divides[cells] & (cells != NO_CELL)
        null = cells == self.cell_of.cells
        stored = np.flatnonzero(is_divided & ~null if not self.keeps_null else is_divided)
        probing = np.flatnonzero(is_other & ~null)
        ordinals = (hashes[stored].view(np.uint64) >> np.uint64(64 - _BITS)).astype(np.int64)
        counts = np.full(len(stored), 1 << _BITS)
        stored_lanes = self.table.store(cells[stored], ordinals, counts)
        begins, visited = self.cell_of.visits(self.table, side, cells[probing])
        lengths = np.zeros(len(cells), np.int64)
        lengths[stored] = 1
        lengths[probing] = np.diff(begins)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        values = np.empty(offsets[-1], np.int64)
        values[offsets[stored]] = stored_lanes
        is_stored = np.zeros(len(cells), bool)
        is_stored[stored] = True
        # Both are in the order of rows.
        values[~np.repeat(is_stored, lengths)] = visited
        return offsets, values

    def lists(self, side: str, hashes: pa.Array, columns: tuple[pa.Array, ...]) -> pa.Array:
        """Lanes of rows as lists of int32, by the columns that their cells need."""
        cells = self.cell_of(side, columns)
        offsets, values = self.lanes(side, cells, hashes.to_numpy())
        return pa.ListArray.from_arrays(
            pa.array(offsets.astype(np.int32)), pa.array(values.astype(np.int32))
        )


@dataclass(frozen=True)
class KeyShards(Shards):
    """Cells of keys on lanes, by a routing table.

    Parameters
    ----------
    side : str
        The side that the lanes hold; of a join that decides about rows, the divided one.
    routes : KeyRoutes
    columns : mapping of side to tuple of Column
        What the cells of its rows need.
    """

    side: str
    routes: KeyRoutes
    columns: Mapping[str, tuple[Column, ...]] = field(compare=False)

    @property
    def count(self) -> int:
        return self.routes.table.lanes

    def is_copied(self, side: str) -> bool:
        return True

    def row_shards(self, side: str, moment: Column | None, spread: Column) -> Column:
        routes = self.routes

        def lanes(hashes: pa.Array, *columns: pa.Array) -> pa.Array:
            return routes.lists(side, hashes, columns)

        return computed(lanes, "array<int>", (spread, *self.columns[side]))
