"""Frontiers: the part of a join that watermarks decide, and the rows that later steps may need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.plan.plan import JoinPlan, plan
from penstock.plan.query import LEFT, RIGHT, JoinQuery, RowsWindow, Side, TimeWindow, other
from penstock.plan.ranges import place
from penstock.plan.window import FOREVER, NEVER
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


@dataclass(frozen=True)
class RowBlock:
    """Rows of one side that are kept together.

    Parameters
    ----------
    low, high : int
        Least and largest time.
    group : int, optional
        Largest time key of the rows, if they wait for their group.
    """

    rows: int
    low: int
    high: int
    group: int | None = None


def needed(frontier: Frontier, blocks: Mapping[str, Sequence[RowBlock]]) -> dict[str, list[bool]]:
    """Return, per side and block, whether a later step may read a row of the block.

    Parameters
    ----------
    frontier : Frontier
        Watermarks so far.
    blocks : mapping of side to sequence of Block
        In the order of arrival.
    """
    over = _over_time if isinstance(frontier.query.window, TimeWindow) else _over_rows
    return over(frontier, blocks)


def oldest(frontier: Frontier, blocks: Mapping[str, Sequence[RowBlock]], side: str) -> int:
    """Return the time below which no row of a side is needed (time windows).

    Returns ``NEVER`` if rows wait for their group: then times do not tell which are needed.
    """
    bounds = []
    if side in frontier.plan.decided_once:
        bounds.append(frontier.closed(side) if frontier.grouping is None else NEVER)
    if side in frontier.plan.met_later:
        bounds.append(_met_from(frontier, blocks, side))
    return min(bounds)


def _met_from(frontier: Frontier, blocks: Mapping[str, Sequence[RowBlock]], side: str) -> int:
    """Return the least time of a side's rows that open or later rows can meet."""
    opposite = other(side)
    first = frontier.watermarks[opposite]
    if opposite in frontier.plan.decided_once:
        if frontier.grouping is None:
            first = min(first, frontier.closed(opposite))
        else:
            waiting = (b.low for b in blocks[opposite] if _is_open(frontier, opposite, b))
            first = min(first, min(waiting, default=FOREVER))
    window = frontier.query.window
    assert isinstance(window, TimeWindow)
    return window.closed_below(side, first)


def _is_open(frontier: Frontier, side: str, block: RowBlock) -> bool:
    """Return whether a row of a block may still have to be decided."""
    if frontier.grouping is None:
        return block.high >= frontier.closed(side)
    return block.group is None or block.group >= frontier.limit


def _over_time(
    frontier: Frontier, blocks: Mapping[str, Sequence[RowBlock]]
) -> dict[str, list[bool]]:
    kept = {}
    for side in (LEFT, RIGHT):
        is_met, is_decided = side in frontier.plan.met_later, side in frontier.plan.decided_once
        bound = _met_from(frontier, blocks, side) if is_met else FOREVER
        kept[side] = [
            (is_met and block.high >= bound) or (is_decided and _is_open(frontier, side, block))
            for block in blocks[side]
        ]
    return kept


def _over_rows(
    frontier: Frontier, blocks: Mapping[str, Sequence[RowBlock]]
) -> dict[str, list[bool]]:
    window = frontier.query.window
    assert isinstance(window, RowsWindow)
    sizes = {LEFT: window.left, RIGHT: window.right}
    kept = {}
    for side in (LEFT, RIGHT):
        opposite, bound = other(side), frontier.released
        if opposite in frontier.plan.decided_once:
            bound = min(bound, _since(blocks[opposite], sizes[opposite], bound))
        of_side = blocks[side]
        kept[side] = [
            block.high >= bound or _rows_after(of_side, k, bound) < sizes[side]
            for k, block in enumerate(of_side)
        ]
    return kept


def _since(blocks: Sequence[RowBlock], rows: int, bound: int) -> int:
    """Return a time at or before the row that is ``rows`` places before a bound."""
    count = 0
    for block in sorted((b for b in blocks if b.high < bound), key=lambda b: -b.low):
        count += block.rows
        if count >= rows:
            return block.low
    return NEVER


def _rows_after(blocks: Sequence[RowBlock], k: int, bound: int) -> int:
    """Return how many rows before a bound certainly come after all rows of a block."""
    return sum(
        block.rows
        for n, block in enumerate(blocks)
        if block.high < bound
        and (block.low > blocks[k].high or (block.low == blocks[k].high and n > k))
    )
