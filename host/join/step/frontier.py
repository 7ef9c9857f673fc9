"""Frontiers: the part of a join that given watermarks decide."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.plan.plan import JoinPlan, plan
from penstock.plan.query import JoinQuery, RowsWindow, Side, TimeWindow, other
from penstock.plan.ranges import place
from penstock.plan.window import FOREVER
from penstock.types import UNIT_NS, int_of

from ...emit.groups.closing import GroupClosing, Limit, below, group_closing
from ...rows.sides import SideRows
from ...windows.probe import Watermarks


@dataclass(frozen=True)
class Frontier:
    """Watermarks of the sources, and the rows and groups that they decide.

    Parameters
    ----------
    watermarks : mapping of side to int
        Per side, the time below which no later row comes.
    """

    query: JoinQuery
    watermarks: Watermarks

    @cached_property
    def plan(self) -> JoinPlan:
        return plan(self.query)

    @property
    def released(self) -> int:
        """Time below which the place of every row is known (ROWS)."""
        return min(self.watermarks.values())

    def closed(self, side: str) -> int:
        """Return the time below which rows of a side meet no later row (time windows)."""
        window = self.query.window
        assert isinstance(window, TimeWindow)
        return window.closed_below(side, self.watermarks[other(side)])

    def complete_below(self, side: str) -> int:
        """Return the time of a side below which no output row is to come (time windows)."""
        return min(self.watermarks[side], self.closed(side))

    def closed_rows(self, side: str, times: np.ndarray) -> int:
        """Return how many of a side's rows, with ascending times, meet no later row (ROWS)."""
        window = self.query.window
        assert isinstance(window, RowsWindow)
        count = self.count(times)
        is_over = count == len(times) and self.released == FOREVER
        return window.closed(side, count, is_over=is_over)

    def count(self, times: np.ndarray) -> int:
        """Return how many rows, with ascending times, are released (ROWS)."""
        return place(times, self.released)

    @cached_property
    def grouping(self) -> GroupClosing | None:
        """Time keys and limit of groups, if rows wait for their group."""
        return group_closing(self.query)

    @cached_property
    def limit(self) -> Limit:
        """Return the time key below which groups are complete."""
        assert self.grouping is not None
        return self.grouping.limit(self.watermarks)

    def complete(self, rows: SideRows) -> np.ndarray:
        """Return which rows belong to a complete group."""
        assert self.grouping is not None
        return below(self.grouping.keys(rows.columns, len(rows)), self.limit)


def moment_in(query: JoinQuery, side: Side, time: int, dtype: pa.DataType) -> pa.Array:
    """Return a time of the window, rounded down, as the one value of a column of a side's time."""
    unit = dtype.unit if pa.types.is_timestamp(dtype) else side.unit
    window = query.window.unit if isinstance(query.window, TimeWindow) else ""
    count = time * UNIT_NS.get(window, 1) // UNIT_NS.get(unit, 1)
    stored = dtype if pa.types.is_integer(dtype) else pa.int64()
    stored = pa.int32() if pa.types.is_date32(dtype) else stored
    bounds = int_of(stored.bit_width, signed=pa.types.is_signed_integer(stored))
    # A time may lie beyond those of its column, which may be unsigned.
    return pa.array([min(max(count, bounds.lo), bounds.hi)], stored).cast(dtype)
