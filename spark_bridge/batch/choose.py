"""Chooses the shards of a batch join, from statistics of its inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.plan.query import LEFT, RIGHT, JoinQuery, TimeWindow, other

from ..clock import TickClock
from ..costs import EVALUATIONS_PER_ROW
from .shards import GridShards, Shards, TimeShards
from .statistics import Atom, Spread, atoms, clocks_of, pairs_in_window

if TYPE_CHECKING:
    from .native import NativeJoin

#: A stretch of time with more work than this many shards' shares gets shards of its own.
_HEAVY = 1.5

#: Factor by which a shard's share of the work grows while there would be too many shards.
_LARGER = 1.1


@dataclass(frozen=True)
class Limits:
    """Limits for the number of shards.

    Parameters
    ----------
    most : int
        Largest number of shards.
    exact : bool
        Whether the caller asked for ``most`` shards; then that many are made if the rows allow it.
    shard_rows : int
        Work, counted in rows, for which another shard is worth while.
    held_rows : int
        Most rows that a shard should hold; goes before ``most``.
    """

    most: int
    exact: bool
    shard_rows: int
    held_rows: int

    def shards(self, work: float, held: float) -> int:
        """Number of shards for this much work, counted in rows, and this many held rows."""
        if self.exact:
            return self.most
        wanted = min(self.most, math.ceil(work / self.shard_rows))
        return max(1, wanted, math.ceil(held / self.held_rows))


@dataclass(frozen=True)
class Choice:
    """Shards, and why these.

    Parameters
    ----------
    shards : Shards
    reason : str
    moved : float
        Estimate of the rows that are sent to shards, with copies.
    evaluations : float or None
        Estimate of the pairs in the window, or, by keys, of the pairs that meet in one lane; None
        if it is not known.
    keys : str
        Why rows are not dealt by keys, if they could be.
    is_cheap : bool
        Whether the task of the only lane should read the inputs itself.
    native : NativeJoin, optional
        The join that Spark runs itself, without lanes.
    """

    shards: Shards
    reason: str
    moved: float
    evaluations: float | None
    keys: str = ""
    is_cheap: bool = False
    native: NativeJoin | None = field(default=None, compare=False)


def dividable(query: JoinQuery) -> list[str]:
    """Sides that may be divided.

    If the join keeps or drops rows of a side by their matches, only that side may be.
    """
    if query.nearest is not None:
        return [LEFT]
    if query.aggregation is not None:
        if query.is_rows and query.aggregation.side is not None:
            return [query.aggregation.side]
        return [LEFT, RIGHT]
    if query.kind.is_existence:
        return [LEFT]
    return sorted(query.kind.unmatched) or [LEFT, RIGHT]


def decides_rows(query: JoinQuery) -> bool:
    """Whether the join keeps or drops a row by its matches, so that one shard must see them all."""
    if query.nearest is not None:
        return True
    return query.aggregation is None and (query.kind.is_existence or bool(query.kind.unmatched))


def one_shard(side: str, reason: str) -> Choice:
    """Choose one shard for all rows."""
    return Choice(TimeShards(side, [], [1], {}, TimeWindow(None, None)), reason, 0, None)


def shards_of_time(
    query: JoinQuery, spreads: Mapping[str, Spread], limits: Limits, side: str
) -> Choice:
    """Cut one side's time into slices with about the same work each."""
    assert isinstance(query.window, TimeWindow)
    pieces, clocks = atoms(spreads, side, query.window), clocks_of(spreads)
    pairs = sum(a.pairs for a in pieces)
    other_rows = spreads[other(side)].rows
    work = spreads[side].rows + other_rows + pairs / EVALUATIONS_PER_ROW
    wanted = limits.shards(work, spreads[side].rows)
    bounds, parts = _slices(pieces, wanted, clocks[side])
    shards = TimeShards(side, bounds, parts, clocks, query.window)
    moved = spreads[side].rows + _copies(shards, spreads[other(side)])
    divided = sum(1 for p in parts if p > 1)
    alias = query.names[side]
    text = f"{len(parts)} slices of {alias}'s time with about the same work"
    if divided:
        text += f"; {divided} of them crowded, and spread over several lanes by a hash"
    return Choice(shards, text, moved, pairs)


def _slices(pieces: Sequence[Atom], wanted: int, clock: TickClock) -> tuple[list[int], list[int]]:
    """Bounds of slices, and how many shards each gets."""
    weights = [a.rows + a.pairs / EVALUATIONS_PER_ROW for a in pieces]
    total = sum(weights)
    if wanted == 1 or not total:
        return [], [1]
    share = total / wanted
    while True:
        ends, parts = _cut(weights, share)
        if sum(parts) <= wanted:
            break
        share *= _LARGER
    bounds = [clock.time(pieces[end].last + 1) for end in ends[:-1]]
    return bounds, parts


def _cut(weights: Sequence[float], share: float) -> tuple[list[int], list[int]]:
    """Last piece of each slice, and its shards."""
    slices: dict[int, int] = {}
    gathered = 0.0
    for k, weight in enumerate(weights):
        if weight >= _HEAVY * share:
            if gathered:
                slices[k - 1] = 1
            slices[k] = max(1, math.floor(weight / share))
            gathered = 0.0
            continue
        gathered += weight
        # Rounding alone may leave the sum of many weights just below the share.
        if gathered >= share * (1 - 1e-9):
            slices[k] = 1
            gathered = 0.0
    if gathered:
        slices[len(weights) - 1] = 1
    return list(slices), list(slices.values())


def _copies(shards: TimeShards, other_side: Spread) -> float:
    """Estimate of the rows of the other side that go to shards, with copies."""
    if not shards.bounds:
        return float(other_side.rows * shards.count)
    low, high = shards.window.offsets(other(shards.side))
    edges = np.array([float(b) for b in shards.bounds])
    last = np.full(len(shards.parts), float(other_side.rows))
    first = np.zeros(len(shards.parts))
    if high is not None:
        last[:-1] = other_side.upto(edges + float(high))
    if low is not None:
        first[1:] = other_side.upto(edges + float(low))
    return float((np.maximum(last - first, 0) * np.array(shards.parts)).sum())


def shards_of_grid(
    query: JoinQuery,
    spreads: Mapping[str, Spread],
    limits: Limits,
    pairs: float | None,
    sides: Sequence[str],
) -> Choice:
    """Choose a grid: both sides' rows are in parts, and each pair of parts has a shard."""
    rows = {side: max(spread.rows, 1) for side, spread in spreads.items()}
    known = rows[LEFT] * rows[RIGHT] if pairs is None else pairs
    side = max(sides, key=lambda side: rows[side])
    work = sum(rows.values()) + known / EVALUATIONS_PER_ROW
    wanted = limits.shards(work, rows[side])
    sizes = {side: wanted, other(side): 1}
    why = f"{query.names[side]} is spread by a hash, since the join decides about its rows"
    if not decides_rows(query):
        left = _grid_rows(wanted, rows[LEFT], rows[RIGHT])
        sizes = {LEFT: left, RIGHT: wanted // left}
        why = f"a grid of {sizes[LEFT]} x {sizes[RIGHT]}"
    shards = GridShards(side, sizes[LEFT], sizes[RIGHT])
    moved = rows[LEFT] * sizes[RIGHT] + rows[RIGHT] * sizes[LEFT]
    return Choice(shards, why, moved, pairs)


def _grid_rows(shards: int, left: int, right: int) -> int:
    """Number of rows of the grid, of at most this many shards, that sends the fewest copies."""
    used = {rows: shards // rows for rows in range(1, shards + 1)}
    # A grid that uses less than three quarters of the shards does not count.
    enough = [r for r, c in used.items() if r * c >= 0.75 * shards]
    return min(enough, key=lambda rows: left * used[rows] + right * rows)


def choose(
    query: JoinQuery,
    spreads: Mapping[str, Spread],
    limits: Limits,
    partitioning: str,
    sides: Sequence[str],
) -> Choice:
    """Choose the shards of a join over a time window, in which one of ``sides`` is divided."""
    assert isinstance(query.window, TimeWindow)
    pairs = pairs_in_window(spreads, query.window)
    grid = shards_of_grid(query, spreads, limits, pairs, sides)
    if partitioning == "grid" or pairs is None:
        return grid
    slices = [shards_of_time(query, spreads, limits, side) for side in sides]
    best = min(slices, key=lambda c: c.moved)
    # Slices of time leave out pairs that are far apart, and copy no row of the divided side.
    if partitioning == "time" or best.moved <= grid.moved or best.shards.count > grid.shards.count:
        return best
    why = "the window is long beside the data, so slices of time would need more copies"
    return Choice(grid.shards, f"{grid.reason}; {why}", grid.moved, pairs)
