"""The held side of a join; the other side comes in parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.plan.query import JoinQuery, TimeWindow
from penstock.plan.ranges import place as place_of

from ...rows.sides import Loaded, counting
from ..table.loading import loaded


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
    rows : Loaded
        The held rows; its table has those with a time, in order of time, then the others.
    owned : slice
        The rows that the join decides, by place in the order of time.
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
        read = loaded(query, query.side(side), table)
        timed, timeless = read.rows, read.timeless
        rows, number = np.concatenate([timed.row, timeless.row]), len(timed)
        is_ordered = np.array_equal(rows, np.arange(read.table.num_rows))
        self.rows = Loaded(
            read.table if is_ordered else read.table.take(pa.array(rows)),
            replace(timed, row=counting(number)),
            replace(timeless, row=np.arange(number, len(rows))),
        )
        self.place = timed.row if place is None else place[timed.row]
        low, high = owned or (None, None)
        self.owned = slice(
            0 if low is None else place_of(timed.time, low),
            len(self) if high is None else place_of(timed.time, high),
        )

    def __len__(self) -> int:
        return len(self.rows.rows)

    def reach(self, times: np.ndarray) -> slice:
        """Return the slice of held rows that rows of the other side may meet.

        Parameters
        ----------
        times : ndarray of int64, ascending
            Of the other side's rows.
        """
        if not isinstance(self._window, TimeWindow):
            return slice(0, len(self))
        if not len(times):
            return slice(0, 0)
        time = self.rows.rows.time
        low, high = self._window.reach(self.side, *times[[0, -1]].tolist())
        first, last = place_of(time, low), place_of(time, high, after=True)
        return slice(first, max(first, last))
