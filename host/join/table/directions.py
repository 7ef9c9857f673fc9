"""Chooses the probing sides of a join of two whole tables, and the range of each row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.plan.band import BandForm
from penstock.plan.plan import Evaluation, JoinPlan, Output, fold_name
from penstock.plan.query import LEFT, RIGHT, TimeWindow, other

from ...device.base import Device
from ...prune.chooser import expectation, expected_s
from ...rows.sides import SideRows
from ...windows.places import ascending_places

#: How much longer one side is where fewer tests may not be worth most: a row is sorted in half the
#: time of a tuple's bounds.
LONGER = 8
#: Fewest tuples of the longer side for which both directions are costed, which takes 10 ms.
COSTED_TUPLES = 1 << 17


@dataclass(frozen=True)
class Direction:
    """Probing rows of one side, each with a range of the other side's rows in order of time.

    Parameters
    ----------
    rows : slice
        Probing rows, by place in the order of time.
    start, end : ndarray of int64, one for each of them
    fold : int, optional
        Number of the plan's fold to compute.
    """

    evaluation: Evaluation
    rows: slice
    start: np.ndarray
    end: np.ndarray
    fold: int | None = None

    @property
    def side(self) -> str:
        """Side that probes."""
        return other(self.evaluation.form.window)

    @property
    def form(self) -> str:
        """Key of the plan's evaluation, as :attr:`.Probe.form`."""
        return self.evaluation.form.window if self.fold is None else fold_name(self.fold)

    @property
    def pairs(self) -> int:
        """Number of pairs that the window admits."""
        return int(self.end.sum() - self.start.sum())


def directions(
    plan: JoinPlan,
    sides: Mapping[str, SideRows],
    probing: Mapping[str, slice],
    named: Collection[str],
    devices: Sequence[Device],
) -> list[Direction]:
    """Return the directions in which to evaluate a plan over whole tables.

    Parameters
    ----------
    sides : mapping of side to SideRows
        In the order of time.
    probing : mapping of side to slice
        Probing rows of a side; all by default.
    named : collection of str
        Sides whose rows devices may keep by name.
    devices : sequence of Device
    """
    window = plan.query.window
    times = {side: rows.time for side, rows in sides.items()}
    moments = window.moments(times, ascending_places)

    def probed(
        one: Evaluation, ranges: tuple[np.ndarray, np.ndarray], fold: int | None = None
    ) -> Direction:
        side = other(one.form.window)
        rows = probing.get(side, slice(None))
        start, end = (ends[rows] for ends in ranges)
        return Direction(one, slice(*rows.indices(len(sides[side]))), start, end, fold)

    if plan.probing is not None:
        met = window.met(plan.probing, moments, ascending_places)
        if plan.output is Output.EXISTENCE:
            return [probed(plan.existence(plan.probing), met)]
        return [probed(one, met, fold) for fold, one in enumerate(plan.folded())]
    if isinstance(window, TimeWindow):
        ranked = sorted(plan.candidates(), key=_rank(sides, named, devices))
        either = (
            probed(one, window.met(other(one.form.window), moments, ascending_places))
            for one in ranked
        )
        first = next(either)
        tuples, rows = (len(sides[side]) for side in (first.side, other(first.side)))
        # Within a window of time both sides read about the same rows.
        is_whole = first.pairs == tuples * rows and all(device.searches for device in devices)
        if named or not is_whole or tuples < max(LONGER * rows, COSTED_TUPLES):
            return [first]
        return [min((first, *either), key=lambda one: _expected_s(one, sides, devices[0]))]
    directions = []
    for side, opposite in ((LEFT, RIGHT), (RIGHT, LEFT)):
        met = window.ranges(opposite, moments[side], moments[opposite], ascending_places)
        directions.append(probed(plan.pairs(opposite), met))
    return directions


def _rank(
    sides: Mapping[str, SideRows], named: Collection[str], devices: Sequence[Device]
) -> Callable[[Evaluation], tuple[bool, bool, int, bool, int]]:
    """Rank evaluations with fewer tests per pair first, then those with the longer window.

    If a device keeps windows, one that it may keep by name comes first, to save its transfer. A
    band whose window is kept, and much longer, comes before fewer tests: it is in order already.
    """
    keeps = any(device.keeps_windows for device in devices)

    def rank(one: Evaluation) -> tuple[bool, bool, int, bool, int]:
        window = one.form.window
        travels, rows = window not in named, len(sides[window])
        is_long = not travels and rows >= LONGER * len(sides[other(window)])
        in_order = is_long and isinstance(one.form.form, BandForm)
        return keeps and travels, not in_order, one.form.cost, travels, -rows

    return rank


def _expected_s(one: Direction, sides: Mapping[str, SideRows], device: Device) -> float:
    window, stream = sides[other(one.side)], sides[one.side]
    costed = expectation(one.evaluation, window, stream, one.start, one.end, device)
    return expected_s(one.evaluation.form, costed)
