"""Distributions of both sides' times, and estimates from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plan.query import LEFT, TimeWindow, other

from ..clock import TickClock


@dataclass(frozen=True)
class Spread:
    """Distribution of one side's rows in time.

    Parameters
    ----------
    rows : int
        With a clock, only rows that have a time are counted.
    clock : TickClock or None
    quantiles : sequence of int
        Ticks at even steps, from the least to the greatest. Empty without rows or a clock.
    """

    rows: int
    clock: TickClock | None = None
    quantiles: Sequence[int] = ()

    def times(self) -> list[int]:
        """Times of the quantiles."""
        return [] if self.clock is None else [self.clock.time(int(q)) for q in self.quantiles]

    def upto(self, times: np.ndarray) -> np.ndarray:
        """Estimates of how many rows lie at or before each of some times; all float64."""
        cuts = np.array(self.times(), np.float64)
        if not len(cuts):
            return np.zeros(len(times))
        # Of equal quantiles the last one counts: rows of one time are not split.
        known, from_end = np.unique(cuts[::-1], return_index=True)
        share = (len(cuts) - 1 - from_end) / max(len(cuts) - 1, 1)
        inside = np.interp(times, known, share, left=0.0, right=1.0)
        return np.where(times < cuts[0], 0.0, np.where(times >= cuts[-1], 1.0, inside)) * self.rows


@dataclass(frozen=True)
class Atom:
    """A stretch of the divided side's time that no quantile cuts.

    Parameters
    ----------
    last : int
        Its end in ticks; it begins after that of the stretch before.
    rows, pairs : float
        Estimates of its rows, and of their pairs in the window.
    """

    last: int
    rows: float
    pairs: float


def clocks_of(spreads: Mapping[str, Spread]) -> dict[str, TickClock]:
    """Clocks of the sides that have one."""
    return {side: one.clock for side, one in spreads.items() if one.clock is not None}


def counted(numbers: Mapping[str, DataFrame], size: int) -> dict[str, np.ndarray]:
    """Count the rows of both sides by a number, from one job.

    Parameters
    ----------
    numbers : mapping of side to DataFrame
        With one column, the number of each row; negative ones are not counted.
    size : int
        All numbers are below it.
    """
    of_sides = [
        rows.toDF("number").withColumn("side", F.lit(side)) for side, rows in numbers.items()
    ]
    counts = {side: np.zeros(size, np.int64) for side in numbers}
    rows = reduce(DataFrame.union, of_sides).groupBy("side", "number").count().toArrow()
    number, count, of_side = (rows[name].to_numpy() for name in ("number", "count", "side"))
    for side, side_counts in counts.items():
        is_of_side = (of_side == side) & (number >= 0)
        side_counts[number[is_of_side]] = count[is_of_side]
    return counts


def pairs_in_window(spreads: Mapping[str, Spread], window: TimeWindow) -> float | None:
    """Estimate of the pairs in the window; None where a side's times are not known."""
    if len(clocks_of(spreads)) < 2:
        return None
    return sum(one.pairs for one in atoms(spreads, LEFT, window))


def atoms(spreads: Mapping[str, Spread], side: str, window: TimeWindow) -> list[Atom]:
    """The stretches between a side's quantiles; equal quantiles make one stretch."""
    divided, opposite = spreads[side], spreads[other(side)]
    times = np.array(divided.times(), np.float64)
    low, high = window.offsets(other(side))
    upper, lower = np.full(len(times), float(opposite.rows)), np.zeros(len(times))
    if high is not None:
        upper = opposite.upto(times + float(high))
    if low is not None:
        lower = opposite.upto(np.nextafter(times + float(low), -np.inf))
    # Estimate, at each quantile, of the rows of the other side that a row of that time meets.
    met = np.maximum(upper - lower, 0.0)
    cuts = [int(q) for q in divided.quantiles]
    each = divided.rows / max(len(cuts) - 1, 1)
    stretches: list[Atom] = []
    for k, last in enumerate(cuts[1:] or cuts, start=1 if cuts[1:] else 0):
        rows, pairs = each, each * float(met[max(k - 1, 0)] + met[k]) / 2
        if stretches and stretches[-1].last == last:
            before = stretches.pop()
            rows, pairs = before.rows + rows, before.pairs + pairs
        stretches.append(Atom(last, rows, pairs))
    return stretches
