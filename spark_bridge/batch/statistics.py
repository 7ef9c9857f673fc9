"""Distributions of both sides' times, from one small job, and estimates made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.plan.query import TimeWindow, other

from ..clock import Clock


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

    def below(self, clock: Clock, times: np.ndarray) -> np.ndarray:
        """About how many rows lie at or before some times, which are float64."""
        if not self.quantiles:
            return np.zeros(len(times))
        own = np.array([clock.time(q) for q in self.quantiles], np.float64)
        # Of equal quantiles the last counts: all rows of one time are there at once.
        known, from_end = np.unique(own[::-1], return_index=True)
        share = (len(own) - 1 - from_end) / max(len(own) - 1, 1)
        inside = np.interp(times, known, share, left=0.0, right=1.0)
        return np.where(times < own[0], 0.0, np.where(times >= own[-1], 1.0, inside)) * self.rows


@dataclass(frozen=True)
class Atom:
    """A stretch of the divided side's time that no quantile cuts: ``(after, last]`` in ticks.

    ``rows`` and ``pairs`` in the window are about as many as it has.
    """

    after: int | None
    last: int
    rows: float
    pairs: float


def atoms(
    spreads: Mapping[str, Spread], clocks: Mapping[str, Clock], side: str, window: TimeWindow
) -> list[Atom]:
    """The stretches between a side's quantiles; equal quantiles make one stretch."""
    own = spreads[side]
    cuts = [int(q) for q in own.quantiles]
    times = np.array([clocks[side].time(q) for q in cuts], np.float64)
    met = reached(spreads, clocks, side, window, times)
    each = own.rows / max(len(cuts) - 1, 1)
    found: list[Atom] = []
    for k, last in enumerate(cuts[1:] or cuts, start=1 if cuts[1:] else 0):
        rows, pairs = each, each * float(met[max(k - 1, 0)] + met[k]) / 2
        if found and found[-1].last == last:
            before = found.pop()
            rows, pairs = before.rows + rows, before.pairs + pairs
            found.append(Atom(before.after, last, rows, pairs))
        else:
            found.append(Atom(found[-1].last if found else None, last, rows, pairs))
    return found


def reached(
    spreads: Mapping[str, Spread],
    clocks: Mapping[str, Clock],
    side: str,
    window: TimeWindow,
    times: np.ndarray,
) -> np.ndarray:
    """About how many rows of the other side a row of this side meets, by its time."""
    others, clock = spreads[other(side)], clocks[other(side)]
    low, high = window.offsets(other(side))
    upper = np.full(len(times), float(others.rows))
    lower = np.zeros(len(times))
    if high is not None:
        upper = others.below(clock, times + float(high))
    if low is not None:
        lower = others.below(clock, np.nextafter(times + float(low), -np.inf))
    return np.maximum(upper - lower, 0.0)
