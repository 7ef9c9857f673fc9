"""Time and ROWS windows: they say which rows can meet.

``T = right.time - left.time`` in the finer of the two units; a time window is ``-before <= T <=
after``. Rows with one key, of both sides, are of one session as long as neighbours in time are at
most a gap apart. A session's number is then a row's time: only rows of one session meet, so the
join's other parts know nothing of sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..expr import ops
from ..expr.node import Expr, Op, walk
from ..types import INT64, int_of
from .logic import equalities
from .ranges import Search, arrival_numbers, place, time_ranges

#: The sides of a join.
LEFT, RIGHT = "l", "r"

#: Before any watermark: the least time, below which no row can be.
NEVER = INT64[0]
#: After the end of a source: above the greatest time that a row can have.
FOREVER = INT64[1] + 1

#: Positions of a window, ``[start, end)`` per tuple: int64, both non-decreasing.
Ranges = tuple[np.ndarray, np.ndarray]


def other(side: str) -> str:
    """The opposite side."""
    return RIGHT if side == LEFT else LEFT


@dataclass(frozen=True)
class TimeWindow:
    """``-before <= right.time - left.time <= after``, both ends included; None is unbounded.

    ``unit`` is the unit of both, "" for plain integers. Either bound may be negative.
    """

    before: int | None
    after: int | None
    unit: str = ""

    def offsets(self, window: str) -> tuple[int | None, int | None]:
        """Least and greatest ``window time - stream time``, with this side as the window."""
        low = None if self.before is None else -self.before
        if window == RIGHT:
            return low, self.after
        return None if self.after is None else -self.after, self.before

    def ranges(
        self,
        window: str,
        stream: np.ndarray,
        times: np.ndarray,
        search: Search = np.searchsorted,
    ) -> Ranges:
        """Ranges of a side's times that tuples of the other side meet; both ascend."""
        return time_ranges(stream, times, *self.offsets(window), search)

    def moments(
        self, times: Mapping[str, np.ndarray], search: Search = np.searchsorted
    ) -> Mapping[str, np.ndarray]:
        """Values that decide which rows meet, for each side's rows in order of time: the times."""
        return times

    def met(
        self, side: str, times: Mapping[str, np.ndarray], search: Search = np.searchsorted
    ) -> Ranges:
        """Range of the other side's rows that each row of a side meets, by :meth:`moments`."""
        return self.ranges(other(side), times[side], times[other(side)], search)

    def reach(self, window: str, least: int, most: int) -> tuple[int, int]:
        """First and last time of a side that the other side's times ``least`` to ``most`` meet."""
        low, high = self.offsets(window)
        return NEVER if low is None else least + low, FOREVER if high is None else most + high

    def closed_below(self, side: str, watermark: int) -> int:
        """Time below which a side's rows meet no row of the other at or after ``watermark``."""
        if watermark == FOREVER:
            return FOREVER
        low, _ = self.offsets(side)
        return NEVER if low is None else min(watermark + low, FOREVER)

    def expired(self, side: str, times: np.ndarray, first: int) -> int:
        """How many of a side's ascending times meet no row of the other at or after ``first``."""
        return place(times, self.closed_below(side, first))

    def __str__(self) -> str:
        low = "-inf" if self.before is None else str(-self.before)
        high = "inf" if self.after is None else str(self.after)
        return f"{low} <= right.time - left.time <= {high}{' ' + self.unit if self.unit else ''}"


@dataclass(frozen=True)
class RowsWindow:
    """On arrival a left row meets the last ``right`` right rows, a right row the last ``left``."""

    left: int
    right: int

    def size(self, side: str) -> int:
        """Rows of the window over a side."""
        return self.left if side == LEFT else self.right

    def moments(
        self, times: Mapping[str, np.ndarray], search: Search = np.searchsorted
    ) -> Mapping[str, np.ndarray]:
        """Values that decide which rows meet, for each side's rows in order of time: numbers.

        Both sides are counted together, from 0; at equal times, left rows come first.
        """
        left, right = arrival_numbers(times[LEFT], times[RIGHT], search)
        return {LEFT: left, RIGHT: right}

    def ranges(
        self,
        window: str,
        stream: np.ndarray,
        numbers: np.ndarray,
        search: Search = np.searchsorted,
    ) -> Ranges:
        """Ranges of the latest rows of a side when tuples of the other arrive; numbers ascend."""
        arrived = search(numbers, stream, "left").astype(np.int64, copy=False)
        return np.maximum(arrived - self.size(window), 0), arrived

    def met(
        self, side: str, numbers: Mapping[str, np.ndarray], search: Search = np.searchsorted
    ) -> Ranges:
        """Range of the other side's rows that each row of a side meets, by :meth:`moments`.

        A range starts with the latest rows when its row arrives, and goes on with rows that arrive
        while that row is among the latest of its own side.
        """
        opposite, rows = numbers[other(side)], self.size(side)
        start, arrived = self.ranges(other(side), numbers[side], opposite, search)
        end = np.full(len(arrived), len(opposite), dtype=np.int64)
        if rows < len(arrived):
            end[:-rows] = arrived[rows:]
        return start, end

    def closed(self, side: str, count: int, *, is_over: bool) -> int:
        """How many of a side's first ``count`` rows meet no later row; all once it ``is_over``."""
        return count if is_over else max(0, count - self.size(side))

    def expired(self, side: str, numbers: np.ndarray, first: int) -> int:
        """How many of a side's ascending numbers meet no row of the other from ``first`` on."""
        return max(0, place(numbers, first) - self.size(side))

    def __str__(self) -> str:
        return f"the last {self.left} left rows x the last {self.right} right rows"


Window = TimeWindow | RowsWindow


#: Column of a row's session; no column of a user has this name.
SESSION = "\0session"
#: No two times of 64 bits lie further apart.
MOST_GAP = (1 << 64) - 1


def session_column(side: str) -> Expr:
    """A row's session, NULL where it has no time or no key: such a row meets nothing."""
    return ops.column(side, SESSION, int_of(64))


@dataclass(frozen=True)
class Sessions:
    """How rows form sessions.

    Parameters
    ----------
    times : tuple of Expr
        Event times of the left and right side, as integers of one unit.
    unit : str
        Of both, "" for plain integers.
    own_units : tuple of str
        Units of the time columns themselves.
    gap : int
        Most time between neighbours of one session.
    keys : tuple of tuple of Expr
        Keys of the left and right side; those at one place have one type.
    """

    times: tuple[Expr, Expr]
    unit: str
    own_units: tuple[str, ...]
    gap: int
    keys: tuple[tuple[Expr, ...], tuple[Expr, ...]]

    def side_keys(self, side: str) -> tuple[Expr, ...]:
        """The key of a side."""
        return self.keys[0 if side == LEFT else 1]

    def columns_of(self, side: str) -> set[str]:
        """The columns of a side's key."""
        leaves = (leaf for key in self.side_keys(side) for leaf in walk(key))
        return {leaf.attr[1] for leaf in leaves if leaf.op is Op.COLUMN}

    def __str__(self) -> str:
        gap = f"{self.gap} {self.unit}" if self.unit else str(self.gap)
        return f"sessions of both sides' rows with one key, at most {gap} apart"


def keys_of(conjuncts: Iterable[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The keys that a join condition says are equal, of the left and right side."""
    pairs = [(a, b) for _, a, b in equalities(conjuncts, LEFT) if b.sides]
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
