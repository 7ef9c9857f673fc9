"""When the groups of a running join are complete."""

from __future__ import annotations

import math

import numpy as np

from penstock.errors import DataError
from penstock.expr.columns import Columns, evaluate, evaluate_columns
from penstock.plan.closing import TimeKey, floor_of, time_column
from penstock.plan.linear import linear
from penstock.plan.query import JoinQuery, TimeWindow, other
from penstock.plan.window import FOREVER

from ...windows.probe import Watermarks

#: Groups whose time key lies below are complete; infinite for all, or for none.
Limit = int | float


class Closing:
    """Turns what is promised about times into what is complete of the groups.

    Parameters
    ----------
    query : JoinQuery
        With groups.
    key : TimeKey
    """

    def __init__(self, query: JoinQuery, key: TimeKey) -> None:
        assert query.aggregation is not None
        time = query.side(key.side).time
        assert time is not None
        self.side = key.side
        self.expr = query.aggregation.keys[key.index]
        self._floor = floor_of(self.expr)
        self._column = time_column(time)
        ((_, self._factor),) = linear(time).terms
        self._constant = linear(time).constant
        self._window = query.window

    def keys(self, columns: Columns, rows: int) -> np.ndarray:
        """The time key of rows of its side: integers, in units of its type."""
        return evaluate_columns(self.expr, columns, rows).values

    def limit(self, watermarks: Watermarks) -> Limit:
        """Below which time key no group gets another pair, over a time window."""
        assert isinstance(self._window, TimeWindow)
        # Later rows of the other side meet none before.
        closed = self._window.closed_below(self.side, watermarks[other(self.side)])
        first = min(watermarks[self.side], closed)
        return math.inf if first == FOREVER else self._key_at(first)

    def limit_after(self, columns: Columns, rows: int, watermarks: Watermarks) -> Limit:
        """The same over ROWS, where rows are probed in order of time: these are the last."""
        if min(watermarks.values()) == FOREVER:
            return math.inf
        if not rows:
            return -math.inf
        return int(evaluate_columns(self._floor, columns, rows).values.max())

    def _key_at(self, time: int) -> Limit:
        """The least time key of a row at a time or later."""
        value = -((self._constant - time) // self._factor)
        dtype = self._column.type
        if not dtype.lo <= value <= dtype.hi:
            return -math.inf if value < dtype.lo else math.inf
        try:
            return evaluate(self._floor, {self._column: value})
        except DataError:  # a date of such a time overflows, but no row's does
            return -math.inf if value < 0 else math.inf


def below(keys: np.ndarray, limit: Limit) -> np.ndarray:
    """Which keys belong to complete groups."""
    if isinstance(limit, float):
        return np.full(len(keys), limit > 0)
    return np.asarray(keys < limit, bool)
