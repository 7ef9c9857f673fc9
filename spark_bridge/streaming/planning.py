"""Plans which lane gets which cells of a micro-batch, from exact counts, on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.host.routing.moves_plan import Plan, plan
from penstock.host.routing.table import RoutingTable
from penstock.host.rows.sides import SideRows
from penstock.plan.plan import Output
from penstock.plan.plan import plan as plan_of
from penstock.plan.query import LEFT, RIGHT, other

from ..costs import EVALUATIONS_PER_ROW
from ..routing_cells import CellOf, bounds_of, imbalance
from .cell_index import total_of
from .commit import BatchRecord
from .routing import Routing, known_cells, wanted_cells
from .spec import JoinSpec


@dataclass(frozen=True)
class KeySample:
    """Values of a band's key among new rows, for the bounds of its cells.

    Parameters
    ----------
    values : sequence of int
        Evenly spaced among the sorted values.
    rows : int
        Rows that they stand for.
    """

    values: Sequence[int]
    rows: int


def sample(cell_of: CellOf, side: str, rows: SideRows) -> KeySample:
    """A sample of the values of some rows."""
    values, valid = cell_of.values_of_columns(side, rows.columns, len(rows))
    values = np.sort(values[valid])
    steps = np.linspace(0, max(len(values) - 1, 0), min(cell_of.hashed, len(values)))
    return KeySample(values[steps.astype(np.int64)].tolist(), len(values))


def planned(
    spec: JoinSpec,
    before: BatchRecord,
    commit: BatchRecord,
    samples: Sequence[KeySample],
    lanes: int,
) -> Mapping[str, Any] | None:
    """Plan the routes of a micro-batch from exact counts, and return them as its record keeps them.

    Parameters
    ----------
    spec : JoinSpec
    before : BatchRecord
        Its table is carried on.
    commit : BatchRecord
        With the files of the micro-batch.
    samples : sequence of KeySample
        Of the larger side's new rows, where bounds are not known yet.
    lanes : int
    """
    wanted, cell_of = wanted_cells(spec), known_cells(spec, before)
    if wanted is None or spec.routing is None:
        return None
    if cell_of is None:  # the files of this micro-batch have no cells
        bounds = _bounds(samples, wanted.hashed)
        return {"keys": wanted.identity, "bounds": bounds} if bounds else None
    record = {"keys": wanted.identity, "bounds": list(cell_of.bounds)}
    counted = [file for files in commit.new.values() for file in files]
    is_small = sum(file.rows for file in counted) < spec.routing.least_rows
    celled = [file for side in cell_of.sides for file in commit.new[side]]
    if lanes == 1 or is_small or any(file.cells is None for file in celled):
        return record
    cell_plan = _plan(spec, cell_of, before, commit, lanes)
    return record | {"table": cell_plan.table.to_json(), "figures": figures_of(cell_plan)}


def figures_of(cell_plan: Plan) -> dict[str, Any]:
    """Figures of a plan, by field of :class:`penstock.host.metrics.report.RoutingReport`."""
    return {
        "busiest": imbalance(cell_plan.loads),
        "entries": len(cell_plan.table),
        "split": len(cell_plan.table.split),
        "copies": cell_plan.costs.copies,
        "moved": cell_plan.costs.moved,
        "seconds": cell_plan.costs.seconds,
    }


def _plan(
    spec: JoinSpec, cell_of: CellOf, before: BatchRecord, commit: BatchRecord, lanes: int
) -> Plan:
    assert spec.routing is not None
    loads, window = _work(cell_of, commit)
    previous = Routing.from_record(spec, before)
    if previous is not None and previous.lanes == lanes and previous.cell_of == cell_of:
        table = previous.table
    else:
        table = RoutingTable(cell_of.homes(lanes), lanes)
    return plan(table.loads(loads, window), spec.routing.tolerance, spec.routing.planner)


def _work(cell_of: CellOf, commit: BatchRecord) -> tuple[np.ndarray, np.ndarray]:
    """Work of each cell, counted in rows, and its window rows."""
    count, identity = cell_of.cells + 1, cell_of.identity
    new = {side: total_of(commit.new[side], identity, count) for side in (LEFT, RIGHT)}
    old = {side: total_of(commit.old[side], identity, count) for side in (LEFT, RIGHT)}
    planned = plan_of(cell_of.compiled.query())
    if planned.output is Output.PAIRS:
        probing = [(LEFT, new[LEFT], old[RIGHT] + new[RIGHT]), (RIGHT, new[RIGHT], old[LEFT])]
    else:  # rows wait, and probe when they are decided
        (side,) = planned.decided_once
        probing = [(side, old[side] + new[side], old[other(side)] + new[other(side)])]
    work, cells = np.zeros(count), np.arange(count)
    if cell_of.keys.grouped is not None:
        ((side, rows, _),) = probing
        window = sum(file.rows for file in commit.blocks()[other(side)])
        work = rows + rows.astype(np.float64) * window / EVALUATIONS_PER_ROW
        return np.ceil(work).astype(np.int64), old[side]
    for side, rows, met in probing:
        low, high = cell_of.reach(side, cells)
        total = np.concatenate([[0], np.cumsum(met)])
        pairs = rows.astype(np.float64) * (total[high + 1] - total[low])
        pairs[-1] = 0  # NULL matches nothing
        work += rows + pairs / EVALUATIONS_PER_ROW
    return np.ceil(work).astype(np.int64), old[LEFT] + old[RIGHT]


def _bounds(samples: Sequence[KeySample], cells: int) -> list[int]:
    """Bounds that cut the rows of all samples into about equal parts."""
    filled = [one for one in samples if one.values]
    if not filled:
        return []
    values = np.concatenate([np.array(one.values, np.int64) for one in filled])
    weights = np.concatenate(
        [np.full(len(one.values), one.rows / len(one.values)) for one in filled]
    )
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    at = np.searchsorted(ends, ends[-1] * np.arange(cells) / cells, "right")
    return list(bounds_of(values[order][np.minimum(at, len(values) - 1)].tolist()))
