"""Groups of rows folded over their matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns, Vector, evaluate_columns
from penstock.plan.folds import FoldKey, FoldPlan
from penstock.plan.query import Aggregation
from penstock.program import Mode

from ...device.base import Folds
from .groups import Groups
from .select import GroupSelect
from .values import GroupValues

#: Returns the value of an aggregate, by its number, for rows and the window positions of their best
#: matches.
Best = Callable[[int, np.ndarray, np.ndarray], pa.Array]


@dataclass(frozen=True)
class Folded:
    """Rows of the group's side, each with a match, in order of appearance.

    Parameters
    ----------
    keys : RecordBatch
        The group's keys of each row.
    own : mapping of int to Vector
        From :func:`own_values`, of these rows.
    folds : mapping of (FoldKey, Mode) to Folds
        Of these rows.
    """

    keys: pa.RecordBatch
    rows: int
    own: Mapping[int, Vector]
    folds: Mapping[tuple[FoldKey, Mode], Folds]


def own_values(aggregation: Aggregation, columns: Columns, rows: int) -> dict[int, Vector]:
    """Compute each row's value, by aggregate number, for values of the group's own side."""
    assert aggregation.side is not None
    own = frozenset({aggregation.side})
    return {
        k: evaluate_columns(one.value, columns, rows)
        for k, one in enumerate(aggregation.aggregates)
        if one.value is not None and one.by is None and not one.value.sides - own
    }


def picked(folds: Folds, rows: np.ndarray) -> Folds:
    """Return the folds of some rows, by index."""
    position = None if folds.position is None else folds.position[rows]
    return Folds(folds.found[rows], folds.value[rows], position)


def grouped(
    select: GroupSelect, plan: FoldPlan, folded: Folded, groups: Groups, best: Best
) -> pa.RecordBatch:
    """Make output rows of the groups.

    Parameters
    ----------
    plan : FoldPlan
        Of the same aggregation.
    groups : Groups
        Of these rows, by their keys.
    best : callable
        Finds the values of ``min_by`` and ``max_by``.
    """
    arrays = {("key", str(k)): array for k, array in enumerate(groups.keys)}
    vectors: dict[tuple[str, str], Vector] = {}
    for k, (one, need) in enumerate(zip(select.aggregation.aggregates, plan.needs, strict=True)):
        part = GroupValues(one, need, folded.folds, groups)
        if one.by is None:
            vectors["agg", str(k)] = part.value(folded.own.get(k))
            continue
        row, position = part.best()
        some = np.flatnonzero(row >= 0)
        found = best(k, row[some], position[some])
        index = np.zeros(len(row), np.int64)
        index[some] = np.arange(len(some))
        arrays["agg", str(k)] = found.take(pa.array(index, mask=row < 0))
    return select.batch(groups.count, arrays, vectors)
