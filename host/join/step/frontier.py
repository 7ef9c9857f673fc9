"""What of a join is decided once its sources have promised so much."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.plan.plan import JoinPlan, plan
from penstock.plan.query import JoinQuery, RowsWindow, TimeWindow, other
from penstock.plan.ranges import place
from penstock.plan.window import FOREVER

from ...emit.groups.closing import Closing, Limit, below
from ...rows.sides import SideRows
from ...windows.probe import Watermarks


@dataclass(frozen=True)
class Frontier:
    """Where the sources are.

    Parameters
    ----------
    query : JoinQuery
    watermarks : mapping of side to int
        Below which time no later row of a side comes.
    """

    query: JoinQuery
    watermarks: Watermarks

    @cached_property
    def plan(self) -> JoinPlan:
        return plan(self.query)

    @property
    def released(self) -> int:
        """ROWS: the time below which the place of every row is known."""
        return min(self.watermarks.values())

    def closed(self, side: str) -> int:
        """Time windows: the time below which rows of a side meet no later row."""
        window = self.query.window
        assert isinstance(window, TimeWindow)
        return window.closed_below(side, self.watermarks[other(side)])

    def closed_rows(self, side: str, times: np.ndarray) -> int:
        """ROWS: how many of a side's rows, by their ascending times, meet no later row."""
        window = self.query.window
        assert isinstance(window, RowsWindow)
        count = self.count(times)
        is_over = count == len(times) and self.released == FOREVER
        return window.closed(side, count, is_over=is_over)

    def count(self, times: np.ndarray) -> int:
        """ROWS: how many rows, by their ascending times, are released."""
        return place(times, self.released)

    @cached_property
    def grouping(self) -> Closing | None:
        """Where rows wait for their group: which group a row is of, and when it is complete."""
        key = self.plan.closing_key
        return None if key is None else Closing(self.query, key)

    @cached_property
    def limit(self) -> Limit:
        """Below which time key groups are complete."""
        assert self.grouping is not None
        return self.grouping.limit(self.watermarks)

    def complete(self, rows: SideRows) -> np.ndarray:
        """Which rows are of a group that is complete."""
        assert self.grouping is not None
        return below(self.grouping.keys(rows.columns, len(rows)), self.limit)
