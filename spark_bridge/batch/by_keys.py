"""Chooses shards of a batch join by key, where they are possible and cost less than others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.plan.query import LEFT, RIGHT, JoinQuery, TimeWindow

from ..costs import EVALUATIONS_PER_ROW
from ..inputs import Input, computed
from ..request import Request
from ..routing_cells import CellOf, bounds_of, imbalance
from .choose import Choice, Limits, decides_rows, one_shard
from .key_plan import CellRows, KeyPlan
from .key_shards import KeyRoutes, KeyShards
from .statistics import Spread, counted, pairs_in_window

#: Quantiles that Spark is asked for at most.
_MOST_RANGES = 1 << 12
#: Accuracy of quantiles: ranges are equal to one in this many rows.
_ACCURACY = 20_000

#: ``auto`` deals by keys if that costs less than this share of the best other way: keys are hashed
#: in Python, once to count them and once to send the rows.
_WORTH = 0.8


def pairs_of(query: JoinQuery, spreads: Mapping[str, Spread]) -> float:
    """Estimate of the pairs in the window; all pairs, where a side's times are not known."""
    assert isinstance(query.window, TimeWindow)
    known = pairs_in_window(spreads, query.window)
    return float(spreads[LEFT].rows) * spreads[RIGHT].rows if known is None else known


def may_be_better(
    query: JoinQuery, spreads: Mapping[str, Spread], choices: Sequence[Choice], *, pruning: bool
) -> bool:
    """Whether keys could cost enough less than other choices that it is worth to count cells."""
    rows = spreads[LEFT].rows + spreads[RIGHT].rows
    # Pruning leaves out pairs of different keys in any lane.
    work = 0.0 if pruning else pairs_of(query, spreads) / EVALUATIONS_PER_ROW
    return any(
        one.shards.count > 1 and rows + work / one.shards.count < _WORTH * (one.moved + work)
        for one in choices
    )


def better(keys: Choice, other: Choice, *, pruning: bool) -> Choice:
    """Return the cheaper choice, by rows sent and pairs evaluated; if not keys, it says why."""
    if keys.evaluations is None:
        return replace(other, keys=f"not by keys: {keys.reason}")
    known = other.evaluations
    # Of an unknown number of pairs, as many are counted for both.
    evaluated = keys.evaluations if pruning or known is None else known
    cost = keys.moved + keys.evaluations / EVALUATIONS_PER_ROW
    if cost < _WORTH * (other.moved + evaluated / EVALUATIONS_PER_ROW):
        return keys
    why = f"not by keys: about {keys.moved:.3g} rows would be sent; {keys.reason}"
    return replace(other, keys=why)


def choices_by_keys(
    request: Request,
    inputs: Mapping[str, Input],
    spreads: Mapping[str, Spread],
    limits: Limits,
    halves: Sequence[Sequence[str]],
) -> tuple[Choice, ...]:
    """The shards by key of each half of a join, from one job that counts the rows of cells."""
    cell_of = CellOf(request.compiled, request.conf.routing_cells, wanted=request.wanted)
    columns = {
        side: tuple(one.column(name) for name in cell_of.names(side))
        for side, one in inputs.items()
    }
    if cell_of.keys.band is not None:
        # The larger side is the one that should be cut evenly.
        side = max(inputs, key=lambda side: spreads[side].rows)
        cell_of = replace(cell_of, bounds=_bounds(inputs[side], cell_of, side, columns[side]))
    counts = _counts(inputs, columns, cell_of)
    return tuple(
        _choice(request, cell_of, columns, counts, spreads, limits, sides) for sides in halves
    )


def _bounds(one: Input, cell_of: CellOf, side: str, columns: Sequence[Column]) -> tuple[int, ...]:
    """Bounds of a band's cells: quantiles of one side's values, from a job."""

    def value(*arrays: pa.Array) -> pa.Array:
        return cell_of.values(side, arrays)

    steps = min(cell_of.hashed, _MOST_RANGES)
    fractions = [k / steps for k in range(steps + 1)]
    quantiles = F.percentile_approx("value", fractions, _ACCURACY)
    values = computed(value, "long", columns).alias("value")
    summary = one.frame.select(values).agg(quantiles)
    return bounds_of(summary.collect()[0][0] or [])


def _counts(
    inputs: Mapping[str, Input], columns: Mapping[str, Sequence[Column]], cell_of: CellOf
) -> dict[str, np.ndarray]:
    """Exact numbers of rows of both sides in each cell."""
    cells = {
        side: one.frame.select(_cell(cell_of, side, columns[side])) for side, one in inputs.items()
    }
    return counted(cells, cell_of.cells + 1)


def _cell(cell_of: CellOf, side: str, columns: Sequence[Column]) -> Column:
    def cell(*arrays: pa.Array) -> pa.Array:
        return pa.array(cell_of(side, arrays))

    return computed(cell, "long", columns)


def _choice(
    request: Request,
    cell_of: CellOf,
    columns: Mapping[str, tuple[Column, ...]],
    counts: Mapping[str, np.ndarray],
    spreads: Mapping[str, Spread],
    limits: Limits,
    sides: Sequence[str],
) -> Choice:
    query, conf = request.query, request.conf
    is_decided = decides_rows(query)
    held = max(sides, key=lambda side: int(counts[side].sum()))
    keeps_null = is_decided and held in query.kind.unmatched
    # Cells that a band ties to each other must divide one side.
    is_free = not is_decided and cell_of.keys.band is None
    rows = CellRows.counted(cell_of, counts, None if is_free else held, keeps_null)
    known = float(spreads[LEFT].rows) * spreads[RIGHT].rows
    met = min(1.0, pairs_of(query, spreads) / known) if known else 0.0
    row_count = float(rows.divided.sum() + rows.opposite.sum())
    work = row_count + float(rows.pairs.sum()) * met / EVALUATIONS_PER_ROW
    wanted = limits.shards(work, int(counts[held].sum()))
    if wanted == 1:
        return one_shard(held, f"one lane is enough for {row_count:.3g} rows and their pairs")
    planner, tolerance = conf.routing_planner, conf.routing_tolerance
    plan = KeyPlan.balanced(cell_of, rows, met, wanted, planner, tolerance)
    table, busiest = plan.plan.table, imbalance(plan.plan.loads)
    shards = KeyShards(held, KeyRoutes(cell_of, table, rows.is_left, keeps_null), columns)
    conjunct = cell_of.keys.text(query.names)
    kind = "cells" if cell_of.keys.band is None else "ranges"
    text = (
        f"by {conjunct}; {cell_of.cells} {kind}, placed by {planner}, "
        f"{len(table.split)} of them split; the busiest lane has {busiest:.2f} times the "
        "mean work"
    )
    return Choice(shards, text, plan.moved, plan.pairs * met)
