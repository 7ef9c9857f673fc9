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
from .groups import RowGroups
from .select import GroupSelect
from .values import GroupValues

#: Returns the value of an aggregate, by its number, for rows and the window positions of their best
#: matches.
Best = Callable[[int, np.ndarray, np.ndarray], pa.Array]


@dataclass(frozen=True)
class RowFolds:
    """Rows of the group's side, each with a match, in order of appearance.

    Parameters
    ----------
    keys : RecordBatch
        The group's keys of each row.
    side_values : mapping of int to Vector
        By aggregate, the value of each row, from :func:`side_values`.
    folds : mapping of (FoldKey, Mode) to Folds
        Folds of each row's matches.
    """

    keys: pa.RecordBatch
    rows: int
    side_values: Mapping[int, Vector]
    folds: Mapping[tuple[FoldKey, Mode], Folds]


def side_values(aggregation: Aggregation, columns: Columns, rows: int) -> dict[int, Vector]:
    """Compute each row's value, by aggregate number, for values that read only the group's side."""
    assert aggregation.side is not None
    group_side = frozenset({aggregation.side})
    return {
        k: evaluate_columns(one.value, columns, rows)
        for k, one in enumerate(aggregation.aggregates)
        if one.value is not None and one.by is None and not one.value.sides - group_side
    }


def picked(folds: Folds, rows: np.ndarray) -> Folds:
    """Return the folds of some rows, by index."""
    position = None if folds.position is None else folds.position[rows]
    return Folds(folds.found[rows], folds.value[rows], position)


def grouped(
    select: GroupSelect, plan: FoldPlan, folded: RowFolds, groups: RowGroups, best: Best
) -> pa.RecordBatch:
    """Make output rows of the groups.

    Parameters
    ----------
    plan : FoldPlan
        Plan of the same aggregation.
    groups : RowGroups
        Groups of the folded rows, by their keys.
    best : callable
        Finds the values of ``min_by`` and ``max_by``.
    """
    arrays = {("key", str(k)): array for k, array in enumerate(groups.keys)}
    vectors: dict[tuple[str, str], Vector] = {}
    for k, (one, need) in enumerate(zip(select.aggregation.aggregates, plan.needs, strict=True)):
        part = GroupValues(one, need, folded.folds, groups)
        if one.by is None:
            vectors["agg", str(k)] = part.value(folded.side_values.get(k))
            continue
        row, position = part.best()
        some = np.flatnonzero(row >= 0)
        column = best(k, row[some], position[some])
        index = np.zeros(len(row), np.int64)
        index[some] = np.arange(len(some))
        arrays["agg", str(k)] = column.take(pa.array(index, mask=row < 0))
    return select.batch(groups.count, arrays, vectors)
