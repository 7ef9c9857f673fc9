"""Decides when groups of a stream are complete."""

from __future__ import annotations

import math
from collections.abc import Callable

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
#: takes 0.1 ms.
_MOST_KNOWN = 16


class RisingSteps:
    """A function of time that never falls, and stays the same for many times: called rarely.

    Each new value is followed by one more call, further ahead. Where both are the same, times in
    between need no call; where they differ, later calls halve the way to the next step.

    Parameters
    ----------
    value_at : callable
    """

    def __init__(self, value_at: Callable[[int], Limit]) -> None:
        self._value_at = value_at
        self._known: dict[int, Limit] = {}
        #: The last step: its value, and times from the first to the last that surely have it.
        self._value: Limit = -math.inf
        self._first, self._last = 0, -1
        #: Time that has a higher value, if one is known.
        self._beyond: int | None = None
        self._ahead = 0

    def at(self, time: int) -> Limit:
        """Return the value at a time."""
        if self._first <= time <= self._last:
            return self._value
        value = self._known.get(time)
        if value is None:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            value = self._known[time] = self._value_at(time)
            self._note(time, value)
        return value

    def _note(self, time: int, value: Limit) -> None:
        """Note a value, and look at a later time whether it is still the same."""
        if value != self._value or not self._first <= self._last < time:
            self._value, self._first, self._beyond = value, time, None
        elif self._beyond is None:
            self._ahead = max(self._ahead, time - self._first)
        self._last = time
        is_near = self._beyond is not None
        ahead = (self._beyond - time) // 2 if self._beyond is not None else self._ahead
        if not ahead:
            return
        is_same = self._value_at(time + ahead) == value
        if is_same:
            self._last = time + ahead
        else:
            self._beyond = time + ahead
        if not is_near:  # the next step is about as long
            self._ahead = 2 * ahead if is_same else ahead // 2


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
        self._limits = RisingSteps(self.key_at)

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
        return math.inf if first == FOREVER else self._limits.at(first)

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
