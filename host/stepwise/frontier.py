"""What of a join is decided once its sources have promised so much."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.errors import QueryError
from penstock.host.completeness.admission import FOREVER
from penstock.host.completeness.engine import Promises
from penstock.host.completeness.opening import probed_side
from penstock.host.completeness.probing import closed_below
from penstock.host.grouping.closing import Closing, Limit, below
from penstock.host.ranges import place
from penstock.host.sides import SideRows
from penstock.query.closing import is_per_row, require_closing, time_key
from penstock.query.plan import LEFT, RIGHT, JoinQuery, RowsWindow, TimeWindow, other


def require_stepwise(query: JoinQuery) -> None:
    """Refuse a query that has no end in a stream, or is not joined step by step.

    Raises
    ------
    QueryError
    """
    require_closing(query)
    if not query.is_rows:
        return
    if query.left.time is None or query.right.time is None:
        raise QueryError(
            "ROWS of streams are in the order of time: name the time column of both tables with "
            "time"
        )
    if query.aggregation is not None and not is_per_row(query):
        raise QueryError(
            "groups of several rows over ROWS are not joined in micro-batches: group by a column "
            "that differs from row to row and say so with unique, or use a time window"
        )


@dataclass(frozen=True)
class Frontier:
    """Where the sources are.

    Parameters
    ----------
    query : JoinQuery
    promises : mapping of side to int
        Below which time no later row of a side comes.
    """

    query: JoinQuery
    promises: Promises

    @cached_property
    def once(self) -> tuple[str, ...]:
        """Sides of which each row is decided once, when it can meet no later row."""
        query = self.query
        if query.aggregation is not None and query.aggregation.side is None:
            key = time_key(query)
            assert key is not None
            return (key.side,)
        side = probed_side(query)
        if side is not None:
            return (side,)
        return tuple(s for s in (LEFT, RIGHT) if s in query.kind.unmatched)

    @cached_property
    def met(self) -> tuple[str, ...]:
        """Sides whose rows others meet after their own step."""
        if self.query.aggregation is None and not self.query.kind.is_existence:
            return (LEFT, RIGHT)
        return (other(self.once[0]),)

    @property
    def released(self) -> int:
        """ROWS: the time below which the place of every row is known."""
        return min(self.promises.values())

    def closed(self, side: str) -> int:
        """Time windows: the time below which rows of a side meet no later row."""
        window = self.query.window
        assert isinstance(window, TimeWindow)
        _, high = window.offsets(other(side))
        return closed_below(self.promises[other(side)], high)

    def closed_rows(self, side: str, times: np.ndarray) -> int:
        """ROWS: how many of a side's rows, by their ascending times, meet no later row."""
        window = self.query.window
        assert isinstance(window, RowsWindow)
        count = self.count(times)
        if count == len(times) and self.released == FOREVER:
            return count
        return max(0, count - (window.left if side == LEFT else window.right))

    def count(self, times: np.ndarray) -> int:
        """ROWS: how many rows, by their ascending times, are released."""
        return place(times, self.released)

    @cached_property
    def grouping(self) -> Closing | None:
        """Where rows wait for their group: which group a row is of, and when it is complete."""
        if self.query.aggregation is None or is_per_row(self.query):
            return None
        key = time_key(self.query)
        assert key is not None
        return Closing(self.query, key)

    @cached_property
    def limit(self) -> Limit:
        """Below which time key groups are complete."""
        assert self.grouping is not None
        return self.grouping.limit(self.promises)

    def complete(self, rows: SideRows) -> np.ndarray:
        """Which rows are of a group that is complete."""
        assert self.grouping is not None
        return below(self.grouping.keys(rows.columns, len(rows)), self.limit)
