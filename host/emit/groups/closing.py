"""Decides when groups of a stream are complete."""

from __future__ import annotations

import math

import numpy as np

from penstock.errors import DataError
from penstock.expr.columns import Columns, evaluate, evaluate_columns
from penstock.plan.group_query import (
    Grouped,
    TimeKey,
    floor_of,
    is_per_row,
    time_column,
    time_key,
)
from penstock.plan.linear import linear
from penstock.plan.query import JoinQuery, TimeWindow, other
from penstock.plan.window import FOREVER

from ...windows.probe import Watermarks

#: A bound of time keys: groups below it are complete; infinite for all groups, or for none.
Limit = int | float

#: Most times whose limits are remembered: callers repeat a few times, and evaluating an expression
#: takes 0.2 ms.
_MOST_KNOWN = 16


class GroupClosing:
    """Turns watermarks into limits of complete groups.

    Parameters
    ----------
    query : JoinQuery or GroupQuery
        A query with groups.
    """

    def __init__(self, query: Grouped, key: TimeKey) -> None:
        assert query.aggregation is not None
        time = query.side(key.side).time
        assert time is not None
        #: Number of the time key.
        self.index = key.index
        self.side = key.side
        self.expr = query.aggregation.keys[key.index]
        self._floor = floor_of(self.expr)
        self._column = time_column(time)
        ((_, self._factor),) = linear(time).terms
        self._constant = linear(time).constant
        self._window = query.window if isinstance(query, JoinQuery) else None
        self._known: dict[int, Limit] = {}

    def keys(self, columns: Columns, rows: int) -> np.ndarray:
        """Compute the time keys of the key's side: integers in the unit of the key's type."""
        return evaluate_columns(self.expr, columns, rows).values

    def limit(self, watermarks: Watermarks) -> Limit:
        """Return the time key below which no group gets a further row, or pair in a time window."""
        if self._window is None:
            return self._limit_from(watermarks[self.side])
        assert isinstance(self._window, TimeWindow)
        # Later rows of the other side meet no row before this time.
        closed = self._window.closed_below(self.side, watermarks[other(self.side)])
        return self._limit_from(min(watermarks[self.side], closed))

    def _limit_from(self, first: int) -> Limit:
        """Return the time key below which no group has a row at a time or later."""
        limit = self._known.get(first)
        if limit is None:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            limit = self._known[first] = math.inf if first == FOREVER else self.key_at(first)
        return limit

    def limit_after(self, columns: Columns, rows: int, watermarks: Watermarks) -> Limit:
        """Return the limit of a ROWS join once these rows, the latest in time, have been probed."""
        if min(watermarks.values()) == FOREVER:
            return math.inf
        if not rows:
            return -math.inf
        return int(evaluate_columns(self._floor, columns, rows).values.max())

    def key_at(self, time: int) -> Limit:
        """Return the least time key of rows at a time or later."""
        value = -((self._constant - time) // self._factor)
        dtype = self._column.type
        if not dtype.lo <= value <= dtype.hi:
            return -math.inf if value < dtype.lo else math.inf
        try:
            return evaluate(self._floor, {self._column: value})
        except DataError:  # a date of that time overflows; no row has such a date
            return -math.inf if value < 0 else math.inf


def group_closing(query: Grouped) -> GroupClosing | None:
    """Return what tells when groups are complete; None if each row is one, or there are none."""
    if query.aggregation is None or is_per_row(query):
        return None
    key = time_key(query)
    return None if key is None else GroupClosing(query, key)


def below(keys: np.ndarray, limit: Limit) -> np.ndarray:
    """Return which keys belong to complete groups."""
    if isinstance(limit, float):
        return np.full(len(keys), limit > 0)
    return np.asarray(keys < limit, bool)
