"""Shards of a batch join: where the rows of each side go, so that each pair meets once.

Each row of the *divided* side goes to one shard, which holds it; a row of the other side goes to
every shard that holds rows it may meet. So one shard sees all matches of a held row, and can decide
that it has none. A grid with several columns divides both sides; it is for joins that need no such
decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.plan.query import LEFT, TimeWindow, other

from ..clock import TickClock

_MIN, _MAX = -(1 << 63), (1 << 63) - 1

#: A stretch of time: from, and below; None where it has no end.
Stretch = tuple[int | None, int | None]


class Shards(ABC):
    """Rule that sends the rows of both sides to shards.

    Attributes
    ----------
    side : str
        The divided side.
    """

    side: str

    @property
    @abstractmethod
    def count(self) -> int:
        """How many shards there are."""

    @abstractmethod
    def is_copied(self, side: str) -> bool:
        """Whether rows of a side may go to several shards."""

    @abstractmethod
    def row_shards(self, side: str, moment: Column | None, spread: Column) -> Column:
        """Column of a row's shards: an int, or array<int> if :meth:`is_copied` says so of its side.

        A NULL array means that the row goes to no shard.

        Parameters
        ----------
        side : str
        moment : Column or None
            Ticks of its time; None if its side has no clock.
        spread : Column
            A hash of the row that is the same whenever the row is read.
        """


@dataclass(frozen=True)
class TimeShards(Shards):
    """Slices of the divided side's time: slice k has ``bounds[k-1] <= time < bounds[k]``.

    Parameters
    ----------
    side : str
    bounds : sequence of int
        Times, ascending; one fewer than there are slices.
    parts : sequence of int
        Shards of each slice, among which its rows are spread by hash.
    clocks : mapping of side to TickClock
    window : TimeWindow
    """

    side: str
    bounds: Sequence[int]
    parts: Sequence[int]
    clocks: Mapping[str, TickClock]
    window: TimeWindow

    @property
    def count(self) -> int:
        return sum(self.parts)

    def is_copied(self, side: str) -> bool:
        return side != self.side and self.count > 1

    @property
    def first(self) -> list[int]:
        """First shard of each slice, and the number of shards."""
        return [sum(self.parts[:k]) for k in range(len(self.parts) + 1)]

    def row_shards(self, side: str, moment: Column | None, spread: Column) -> Column:
        first = self.first

        def shard_in_slice(k: int) -> Column:
            if self.parts[k] == 1:
                return F.lit(first[k])
            return F.lit(first[k]) + _spread(spread, self.parts[k])

        if side == self.side:
            if not self.bounds or moment is None:
                return shard_in_slice(0)
            shard = self._slice(moment, self.clocks[side], 0, shard_in_slice)
            # Rows without a time are left only if the join preserves them; any shard will do.
            return F.when(moment.isNull(), _spread(spread, self.count)).otherwise(shard)
        if self.count == 1:
            return F.lit(0)
        low, high = self.window.offsets(other(side))
        begin, end = F.lit(0), F.lit(self.count - 1)
        if self.bounds and moment is not None:
            clock = self.clocks[side]
            if low is not None:
                begin = self._slice(moment, clock, low, lambda k: F.lit(first[k]))
            if high is not None:
                end = self._slice(moment, clock, high, lambda k: F.lit(first[k + 1] - 1))
        return F.sequence(begin, end)

    def _slice(
        self, moment: Column, clock: TickClock, shift: int, value: Callable[[int], Column]
    ) -> Column:
        """``value(k)``, where slice k contains ``time + shift``."""
        # The bounds are shifted, since a shifted time might overflow.
        return at_threshold(moment, [clock.reaches(b - shift) for b in self.bounds], value)


@dataclass(frozen=True)
class GridShards(Shards):
    """1-Bucket-Theta: a left row gets a row of the grid, a right row a column.

    (Okcan and Riedewald, Processing theta-joins using MapReduce, SIGMOD 2011.)
    """

    side: str
    rows: int
    columns: int

    @property
    def count(self) -> int:
        return self.rows * self.columns

    def is_copied(self, side: str) -> bool:
        return (self.columns if side == LEFT else self.rows) > 1

    def row_shards(self, side: str, moment: Column | None, spread: Column) -> Column:
        if side == LEFT:
            row = _spread(spread, self.rows)
            if self.columns == 1:
                return row
            begin = row * self.columns
            return F.sequence(begin, begin + (self.columns - 1))
        column = _spread(spread, self.columns)
        if self.rows == 1:
            return column
        last = column + (self.rows - 1) * self.columns
        return F.sequence(column, last, F.lit(self.columns))


@dataclass(frozen=True)
class RowsShards(Shards):
    """Segments of arrivals for ROWS windows, each with the rows that its own ones may meet.

    A row of the divided side meets the latest rows of the other side before it, and those that
    arrive while it is among the latest of its own side. So a shard gets one stretch of time per
    side: its own rows, earlier rows of the other side, and later rows of both.

    Parameters
    ----------
    side : str
    owned : sequence of Stretch
        Times of each shard's own rows.
    reached : mapping of side to sequence of Stretch
        Times of the rows that each shard gets.
    clocks : mapping of side to TickClock
    """

    side: str
    owned: Sequence[Stretch]
    reached: Mapping[str, Sequence[Stretch]]
    clocks: Mapping[str, TickClock]

    @property
    def count(self) -> int:
        return len(self.owned)

    def is_copied(self, side: str) -> bool:
        return self.count > 1

    def row_shards(self, side: str, moment: Column | None, spread: Column) -> Column:
        if moment is None or self.count == 1:
            return F.lit(0)
        clock, reached = self.clocks[side], self.reached[side]
        starts = [_MIN if low is None else clock.reaches(low) for low, _ in reached[1:]]
        ends = [_MAX + 1 if high is None else clock.reaches(high) for _, high in reached[:-1]]
        last = at_threshold(moment, starts, F.lit)
        first = at_threshold(moment, ends, F.lit)
        # A row without a time is an error; the shard that gets it raises it.
        untimed = F.when(moment.isNull(), F.array(F.lit(0)))
        return untimed.when(first <= last, F.sequence(first, last))


def _spread(hashed: Column, parts: int) -> Column:
    """Number of a part, below ``parts``, by a row's hash."""
    return F.pmod(hashed, F.lit(parts).cast("long")).cast("int")


def at_threshold(
    value: Column, thresholds: Sequence[int], leaf: Callable[[int], Column], before: int = 0
) -> Column:
    """``leaf(k)``, where k is how many of the ascending thresholds do not exceed the value."""
    if not thresholds:
        return leaf(before)
    middle = len(thresholds) // 2
    low = at_threshold(value, thresholds[:middle], leaf, before)
    if thresholds[middle] > _MAX:
        return low
    high = at_threshold(value, thresholds[middle + 1 :], leaf, before + middle + 1)
    least = F.lit(max(thresholds[middle], _MIN)).cast("long")
    return F.when(value >= least, high).otherwise(low)
