"""Lanes of a time-window join: slices of one side's time.

A row of the sliced side goes to the one lane of its time. A row of the other side goes to every
lane that its window reaches. So a pair meets in the lane of its sliced row and in no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.query.plan import TimeWindow, other
from penstock.spark_bridge.clock import Clock

_MIN, _MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Slices:
    """Lane k holds the rows of one side with ``bounds[k-1] <= time < bounds[k]``.

    Parameters
    ----------
    side : str
        The side that is sliced.
    bounds : sequence of int
        Times, ascending; one fewer than there are lanes.
    """

    side: str
    bounds: Sequence[int]

    @property
    def lanes(self) -> int:
        return len(self.bounds) + 1

    def placed(
        self, frame: DataFrame, lane: str, moment: str, side: str, clock: Clock, window: TimeWindow
    ) -> DataFrame:
        """Add a row's lane as the column ``lane``; a row with several lanes becomes several rows.

        Parameters
        ----------
        frame : DataFrame
            Rows of ``side``.
        moment : str
            Its column of :func:`ticks`, never NULL.
        """
        if side == self.side:
            return frame.withColumn(lane, self._reached(moment, clock, 0))
        low, high = window.offsets(other(side))
        first = F.lit(0) if low is None else self._reached(moment, clock, low)
        last = F.lit(self.lanes - 1) if high is None else self._reached(moment, clock, high)
        return frame.withColumn(lane, F.explode(F.sequence(first, last)))

    def _reached(self, moment: str, clock: Clock, shift: int) -> Column:
        """How many bounds are at or before ``time + shift``."""
        # The shift moves the bounds: added to a row's time it might overflow.
        least = [clock.reaches(bound - shift) for bound in self.bounds]
        return _count_up_to(F.col(moment), [max(t, _MIN) for t in least if t <= _MAX])


def _count_up_to(value: Column, thresholds: Sequence[int], before: int = 0) -> Column:
    """``before`` plus how many of the ascending thresholds the value has reached."""
    if not thresholds:
        return F.lit(before)
    middle = len(thresholds) // 2
    return F.when(
        value >= F.lit(thresholds[middle]).cast("long"),
        _count_up_to(value, thresholds[middle + 1 :], before + middle + 1),
    ).otherwise(_count_up_to(value, thresholds[:middle], before))


@dataclass(frozen=True)
class Spread:
    """How the ticks of one side are spread: how many there are, and quantiles at even steps."""

    rows: int
    quantiles: Sequence[int]


def slices_of(
    spreads: Mapping[str, Spread], clocks: Mapping[str, Clock], most: int, rows_per_lane: int
) -> Slices:
    """Slices of the side with more rows: copies of the other one cost less.

    Parameters
    ----------
    spreads, clocks : mapping of side to Spread and Clock
    most : int
        Most lanes; a spread has one quantile fewer.
    rows_per_lane : int
        Rows of the sliced side for which another lane is worth while.
    """
    side = max(spreads, key=lambda s: spreads[s].rows)
    spread = spreads[side]
    lanes = max(1, min(most, -(-spread.rows // rows_per_lane)))
    cuts = [spread.quantiles[round(k * most / lanes) - 1] for k in range(1, lanes)]
    return Slices(side, sorted({clocks[side].time(cut) for cut in cuts}))
