"""The held side of a join; the other side comes in parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.plan.query import JoinQuery, TimeWindow, other
from penstock.plan.ranges import place as place_of

from ...rows.sides import filtered, read_side


class HeldSide:
    """Rows of one side that pass its filter, in order of time for a time window.

    Parameters
    ----------
    table : pyarrow.Table
        Rows in the order that is kept at equal times.
    owned : (int or None, int or None), optional
        Times (from, and below) of the rows that a ROWS join decides; the others only take their
        places in windows. All rows by default.
    place : ndarray of int64, shape (rows,), optional
        Place of each row in its input, for ``min_by`` and ``max_by``; by default the row number.

    Attributes
    ----------
    table : pyarrow.Table
        The held rows, in order of time.
    timeless : pyarrow.Table
        Held rows without a time, which meet nothing.
    """

    def __init__(
        self,
        query: JoinQuery,
        side: str,
        table: pa.Table,
        *,
        owned: tuple[int | None, int | None] | None = None,
        place: np.ndarray | None = None,
    ) -> None:
        self.side = side
        self._window = query.window
        # One chunk per column: finding the chunk of each picked row would cost more.
        table = table.combine_chunks()
        read = read_side(query, query.side(side), table)
        timed = filtered(query.side(side), read.timed).in_time_order()
        self.table, self.time = _picked(table, timed.row), timed.time
        self.place = timed.row if place is None else place[timed.row]
        self.timeless = _picked(table, filtered(query.side(side), read.timeless).row)
        low, high = owned or (None, None)
        #: The rows that the join decides.
        self.owned = slice(
            0 if low is None else place_of(self.time, low),
            len(self) if high is None else place_of(self.time, high),
        )

    def __len__(self) -> int:
        return self.table.num_rows

    def reach(self, query: JoinQuery, part: pa.Table) -> slice:
        """Return the slice of held rows that rows of the other side may meet."""
        if not isinstance(self._window, TimeWindow):
            return slice(0, len(self))
        times = read_side(query, query.side(other(self.side)), part).timed.time
        if not len(times):
            return slice(0, 0)
        low, high = self._window.reach(self.side, int(times.min()), int(times.max()))
        first, last = place_of(self.time, low), place_of(self.time, high, after=True)
        return slice(first, max(first, last))


def _picked(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Return some of the rows, in the given order."""
    if len(rows) == table.num_rows and (rows == np.arange(len(rows))).all():
        return table
    return table.take(pa.array(rows))
