"""Plans which lane gets which cells of a batch join, from exact numbers of both sides' rows.

Of each cell one side is *divided*: a split cell's lanes share out its rows, and each of them gets
all rows of the other side that these may match. So a pair meets in the lane of its divided row, and
nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.host.routing.loads import Loads
from penstock.host.routing.moves_plan import Plan, plan
from penstock.plan.query import LEFT, RIGHT

from ..costs import EVALUATIONS_PER_ROW
from ..routing_cells import CellOf


@dataclass(frozen=True)
class CellRows:
    """Rows of each cell that take part in a join.

    Parameters
    ----------
    is_left : ndarray of bool, shape (cells + 1,)
        Whether the left side is the divided one.
    divided, opposite : ndarray of int64, shape (cells + 1,)
        Rows of the divided side, and of the other one.
    reached : ndarray of int64, shape (cells + 1,)
        Rows of the other side that rows of the divided one may match; a band reaches other cells.
    """

    is_left: np.ndarray
    divided: np.ndarray
    opposite: np.ndarray
    reached: np.ndarray

    @staticmethod
    def counted(
        cell_of: CellOf, counts: Mapping[str, np.ndarray], side: str | None, keeps_null: bool
    ) -> CellRows:
        """Choose the side that is divided in each cell, and count the rows that take part.

        Parameters
        ----------
        cell_of : CellOf
        counts : mapping of side to ndarray of int64, shape (cells + 1,)
            The last cell has the rows whose key is NULL.
        side : str or None
            The side that must be divided, since the join decides about its rows; None divides the
            larger side of each cell, which costs the fewest copies.
        keeps_null : bool
            Whether the divided side's rows with a NULL key are kept; all others match nothing.
        """
        left, right = counts[LEFT], counts[RIGHT]
        is_left = left >= right if side is None else np.full(len(left), side == LEFT)
        divided, opposite = np.where(is_left, left, right), np.where(is_left, right, left)
        opposite[-1] = 0
        if not keeps_null:
            divided[-1] = 0
        reached = opposite
        if side is not None:
            low, high = cell_of.reach(side, np.arange(len(opposite)))
            before = np.concatenate([[0], np.cumsum(opposite)])
            reached = before[high + 1] - before[low]
        return CellRows(is_left, divided, opposite, reached)

    @property
    def pairs(self) -> np.ndarray:
        """Pairs of rows that may match by their cells, by divided row's cell, as float64."""
        return self.divided.astype(np.float64) * self.reached


@dataclass(frozen=True)
class KeyPlan:
    """A plan of cells on lanes, with the rows that each lane gets by it.

    Parameters
    ----------
    plan : Plan
    rows : CellRows
    by_lane : mapping of side to ndarray of float64, shape (lanes,)
        Rows of each side that each lane gets, with copies.
    """

    plan: Plan
    rows: CellRows
    by_lane: Mapping[str, np.ndarray]

    @staticmethod
    def balanced(
        cell_of: CellOf, rows: CellRows, met: float, lanes: int, planner: str, tolerance: float
    ) -> KeyPlan:
        """Plan lanes of about equal work.

        Parameters
        ----------
        cell_of : CellOf
        rows : CellRows
        met : float
            Share of the pairs of a cell that are in the window.
        lanes : int
        planner : str
        tolerance : float
        """
        cells, homes = np.arange(len(rows.divided)), cell_of.homes(lanes)
        work = np.rint(work_of(rows, met)).astype(np.int64)
        used = cells[(rows.divided > 0) | (rows.opposite > 0)]
        loads = Loads(used, homes[used], work[used], homes=homes, lanes=lanes)
        cell_plan = plan(loads, tolerance, planner)
        return KeyPlan(cell_plan, rows, _by_lane(cell_of, cell_plan, rows))

    @property
    def moved(self) -> float:
        """Rows that are sent, with copies."""
        return float(sum(rows.sum() for rows in self.by_lane.values()))

    @property
    def pairs(self) -> float:
        """Pairs of rows of one lane."""
        return float((self.by_lane[LEFT] * self.by_lane[RIGHT]).sum())


def work_of(rows: CellRows, met: float) -> np.ndarray:
    """Work of each cell that a split shares out, counted in rows, as float64.

    A split copies the other side's rows; more of them than there are divided rows do not count, so
    that no cell is split for their sake.
    """
    shared = rows.divided + np.minimum(rows.divided, rows.reached)
    return shared + rows.pairs * met / EVALUATIONS_PER_ROW


def _by_lane(cell_of: CellOf, cell_plan: Plan, rows: CellRows) -> dict[str, np.ndarray]:
    loads = cell_plan.loads
    whole = np.bincount(loads.key, loads.load, len(rows.divided))[loads.key]
    # Work without load is in one part.
    share = np.divide(loads.load, whole, out=np.ones(len(loads)), where=whole > 0)
    divided = rows.divided[loads.key] * share
    by_lane = {}
    for side, is_divided in ((LEFT, rows.is_left), (RIGHT, ~rows.is_left)):
        stored = np.bincount(loads.lane, np.where(is_divided[loads.key], divided, 0), loads.lanes)
        cells = np.flatnonzero(~is_divided & (rows.opposite > 0))
        offsets, lanes = cell_of.visits(cell_plan.table, side, cells)
        sent = np.repeat(rows.opposite[cells], np.diff(offsets))
        by_lane[side] = stored + np.bincount(lanes, sent, loads.lanes)
    return by_lane
