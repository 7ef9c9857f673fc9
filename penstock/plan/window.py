"""Time and ROWS windows: they say which rows can meet.

``T = right.time - left.time`` in the finer of the two units; a time window is ``-before <= T <=
after``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..types import INT64
from .ranges import Search, arrival_order, time_ranges

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

    def met(
        self, side: str, times: Mapping[str, np.ndarray], search: Search = np.searchsorted
    ) -> Ranges:
        """All that each row of a side meets, of all rows of both sides in order of time."""
        return self.ranges(other(side), times[side], times[other(side)], search)

    def reach(self, window: str, least: int, most: int) -> tuple[int, int]:
        """First and last time of a side that the other side's times ``least`` to ``most`` meet."""
        low, high = self.offsets(window)
        return NEVER if low is None else least + low, FOREVER if high is None else most + high

    def closed_below(self, side: str, watermark: int) -> int:
        """The time below which rows of a side meet no row of the other from a watermark on."""
        if watermark == FOREVER:
            return FOREVER
        low, _ = self.offsets(side)
        return NEVER if low is None else watermark + low

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

    def ranges(self, window: str, arrived: np.ndarray) -> Ranges:
        """Ranges of the latest rows of a side; ``arrived`` of it came before each tuple."""
        return np.maximum(arrived - self.size(window), 0), arrived

    def met(
        self, side: str, times: Mapping[str, np.ndarray], search: Search = np.searchsorted
    ) -> Ranges:
        """All that each row of a side meets, of all rows of both sides in order of time.

        It is one range: the latest when the row arrives, and those that arrive while it is among
        the latest of its own side.
        """
        before_left, before_right = arrival_order(times[LEFT], times[RIGHT], search)
        arrived, rows = before_left if side == LEFT else before_right, self.size(side)
        start, _ = self.ranges(other(side), arrived)
        end = np.full(len(arrived), len(times[other(side)]), dtype=np.int64)
        if rows < len(arrived):
            end[:-rows] = arrived[rows:]
        return start, end

    def closed(self, side: str, count: int, *, is_over: bool) -> int:
        """How many of a side's first ``count`` rows meet no later row; all once it ``is_over``."""
        return count if is_over else max(0, count - self.size(side))

    def __str__(self) -> str:
        return f"the last {self.left} left rows x the last {self.right} right rows"


Window = TimeWindow | RowsWindow
