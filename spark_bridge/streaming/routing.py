"""Routes the rows of a micro-batch to lanes, as its record says.

A probing row is in one lane, by its cell and, where the cell is split, by its place among the
cell's rows. A lane reads all window rows of the cells that its probing rows reach, so what it gives
is exact whatever the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from penstock.host.join.step import Share
from penstock.host.routing.table import RoutingTable
from penstock.host.rows.sides import SideRows
from penstock.plan.query import other

from ..routing_cells import CellOf
from .commit import BatchRecord
from .spec import JoinSpec

#: Files of a micro-batch that just has enough rows to be dealt by keys.
_FILES = 32


@dataclass(frozen=True)
class Routing:
    """The routes of a micro-batch.

    Parameters
    ----------
    cell_of : CellOf
    table : RoutingTable
    figures : mapping of str to number
        By field of :class:`penstock.host.metrics.report.RoutingReport`.
    """

    cell_of: CellOf
    table: RoutingTable
    figures: Mapping[str, Any]

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return self.table.lanes

    @cached_property
    def homes(self) -> np.ndarray:
        """Base routing: the home of each cell, ndarray of int64, NULL's last."""
        return self.cell_of.homes(self.lanes)

    @cached_property
    def reads(self) -> dict[str, np.ndarray]:
        """Cells of a side that each lane reads: cells whose rows probe there, and cells in reach.

        By side that has cells, ndarray of bool, shape (lanes, cells + 1).
        """
        count = self.cell_of.cells + 1
        offsets, lanes = self.table.probe(np.arange(count))
        cells = np.repeat(np.arange(count), np.diff(offsets))
        reads = {}
        for side in self.cell_of.sides:
            low, high = cells, cells
            if other(side) in self.cell_of.sides:
                low, high = self.cell_of.reach(other(side), cells)
            steps = np.zeros((self.lanes, count + 1), np.int64)
            for begin, end in ((low, high), (cells, cells)):
                np.add.at(steps, (lanes, begin), 1)
                np.add.at(steps, (lanes, end + 1), -1)
            reads[side] = np.cumsum(steps[:, :-1], axis=1) > 0
        return reads

    @cached_property
    def is_merged(self) -> np.ndarray:
        """Whether groups of a cell are in several lanes, ndarray of bool, shape (cells + 1,)."""
        if not self.cell_of.keys.are_keys_of_groups(self.cell_of.compiled.query()):
            return np.ones(len(self.homes), bool)
        return self.is_split

    @cached_property
    def is_split(self) -> np.ndarray:
        """Whether a cell is in several lanes, ndarray of bool, shape (cells + 1,)."""
        is_split = np.zeros(len(self.homes), bool)
        is_split[self.table.split] = True
        return is_split

    @staticmethod
    def from_record(spec: JoinSpec, commit: BatchRecord) -> Routing | None:
        """The routes that a record has, if it has any."""
        wanted, cell_of, record = wanted_cells(spec), known_cells(spec, commit), commit.routed
        if wanted is None or cell_of is None or record is None:
            return None
        if record["keys"] != wanted.identity:
            return None
        table = RoutingTable.from_json(record["table"], cell_of.homes(record["table"]["lanes"]))
        return Routing(cell_of, table, record["figures"])


@dataclass(frozen=True, kw_only=True)
class CellShare(Share):
    """The rows that probe in a lane, by their cells.

    Parameters
    ----------
    routing : Routing
    is_partial : bool
        Of groups: whether it has those that are merged, or those that are in one lane.
    """

    routing: Routing
    is_partial: bool = False

    def chosen(self, side: str, rows: SideRows) -> np.ndarray:
        """Indices of this lane's rows; all rows of each cell of the lane must be there."""
        return np.flatnonzero(self._lanes(self._cells(side, rows)) == self.lane)

    def grouped(self, side: str, rows: SideRows, groups: np.ndarray) -> np.ndarray:
        """Indices of this lane's rows, by whether their groups are in several lanes."""
        cells = self._cells(side, rows)
        is_mine = self._lanes(cells) == self.lane
        return np.flatnonzero(is_mine & (self.routing.is_merged[cells] == self.is_partial))

    def places(self, side: str, rows: SideRows) -> np.ndarray:
        """Number each row among the rows of its cell and time.

        A lane may read fewer times of a cell than another one, but all rows of each time.
        """
        cells = self._cells(side, rows)
        return _numbers(np.lexsort((rows.time, cells)), cells, rows.time)

    def _cells(self, side: str, rows: SideRows) -> np.ndarray:
        return self.routing.cell_of.of_columns(side, rows.columns, len(rows))

    def _lanes(self, cells: np.ndarray) -> np.ndarray:
        """The lane in which each row probes: rows of a split cell by their place among them."""
        rows = np.flatnonzero(self.routing.is_split[cells])
        split_cells = cells[rows]
        ordinals, counts = np.zeros(len(cells), np.int64), np.ones(len(cells), np.int64)
        ordinals[rows] = _numbers(np.argsort(split_cells, kind="stable"), split_cells)
        counts[rows] = np.bincount(split_cells, minlength=len(self.routing.homes))[split_cells]
        return self.routing.table.store(cells, ordinals, counts)


def _numbers(order: np.ndarray, *keys: np.ndarray) -> np.ndarray:
    """Number of each row among those with its keys, from 0 on; ``order`` sorts rows by them."""
    is_first = np.zeros(len(order), bool)
    is_first[:1] = True
    for key in keys:
        is_first[1:] |= np.diff(key[order]) != 0
    places = np.arange(len(order))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return numbers


def wanted_cells(spec: JoinSpec) -> CellOf | None:
    """The cells by which a query is to be routed, without bounds; None if it is not."""
    rules = spec.routing
    if rules is None:
        return None
    return CellOf(spec.compiled, rules.cells, wanted=rules.wanted, stepwise=True)


def known_cells(spec: JoinSpec, commit: BatchRecord) -> CellOf | None:
    """The cells of a record's files; None if the bounds of a band's are not known yet."""
    cell_of = wanted_cells(spec)
    if cell_of is None or cell_of.keys.band is None:
        return cell_of
    record = commit.routing
    if record is None or record["keys"] != cell_of.identity or not record["bounds"]:
        return None
    return replace(cell_of, bounds=tuple(record["bounds"]))


def cells_to_write(spec: JoinSpec, known: CellOf | None, side: str, rows: int) -> CellOf | None:
    """The cells in whose order a file of so many rows is written; None for the order of time.

    A short file is soon read whole, and in the order of time it need not be sorted for that.
    """
    if spec.routing is None or rows < spec.routing.least_rows // _FILES:
        return None
    return known if known is not None and side in known.sides else None
