"""How the times of both sides are spread, from one small job, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.query.plan import TimeWindow, other
from penstock.spark_bridge.clock import Clock


@dataclass(frozen=True)
class Spread:
    """How the rows of one side lie in time.

    Parameters
    ----------
    rows : int
        Rows; with a clock, those that have a time.
    quantiles : sequence of int
        Ticks at even steps, from the least to the greatest. Empty without rows or a clock.
    """

    rows: int
    quantiles: Sequence[int] = ()

    def times(self, clock: Clock) -> np.ndarray:
        """The quantiles as times, float64: they only say how much work there is."""
        return np.array([clock.time(q) for q in self.quantiles], np.float64)

    def below(self, clock: Clock, times: np.ndarray) -> np.ndarray:
        """About how many rows lie at or before some times."""
        own = self.times(clock)
        if not len(own):
            return np.zeros(len(times))
        # Of equal quantiles the last counts: rows of one time are all before the next.
        known, last = np.unique(own[::-1], return_index=True)
        share = (len(own) - 1 - last) / max(len(own) - 1, 1)
        found = np.interp(times, known, share, left=0.0, right=1.0)
        return np.where(times < own[0], 0.0, found) * self.rows


@dataclass(frozen=True)
class Atom:
    """A stretch of the divided side's time that no quantile cuts: ``(after, last]`` in ticks."""

    after: int | None
    last: int
    rows: float
    pairs: float


def atoms(
    spreads: Mapping[str, Spread], clocks: Mapping[str, Clock], side: str, window: TimeWindow
) -> list[Atom]:
    """The stretches between a side's quantiles, with the pairs that its rows have in the window."""
    own, others = spreads[side], spreads[other(side)]
    cuts = [int(q) for q in own.quantiles]
    if not cuts or not own.rows:
        return []
    steps = len(cuts) - 1
    found: list[Atom] = []
    met = reached(spreads, clocks, side, window, np.array([clocks[side].time(q) for q in cuts], float))
    each = own.rows / max(steps, 1)
    del others
    for k in range(1, len(cuts)) if steps else [0]:
        pairs = each * float(met[max(k - 1, 0)] + met[k]) / 2
        if found and found[-1].last == cuts[k]:
            last = found.pop()
            found.append(Atom(last.after, last.last, last.rows + each, last.pairs + pairs))
        else:
            found.append(Atom(found[-1].last if found else None, cuts[k], each, pairs))
    return found


def reached(
    spreads: Mapping[str, Spread],
    clocks: Mapping[str, Clock],
    side: str,
    window: TimeWindow,
    times: np.ndarray,
) -> np.ndarray:
    """About how many rows of the other side rows of these times meet in the window."""
    window_side = other(side)
    others, clock = spreads[window_side], clocks[window_side]
    low, high = window.offsets(window_side)
    upper = np.full(len(times), float(others.rows))
    lower = np.zeros(len(times))
    if high is not None:
        upper = others.below(clock, times + float(high))
    if low is not None:
        lower = others.below(clock, np.nextafter(times + float(low), -np.inf))
    return np.maximum(upper - lower, 0.0)
