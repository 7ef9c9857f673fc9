"""Rows folded over their matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns, Vector, evaluate_columns
from penstock.plan.folds import FoldKey
from penstock.plan.query import Aggregation
from penstock.program import Mode

from ...device.base import Folds


@dataclass(frozen=True)
class RowPlaces:
    """Event times and places of rows, int64 of shape (n,): they decide which row comes first."""

    time: np.ndarray
    place: np.ndarray


@dataclass(frozen=True)
class BestPairs:
    """The pair of each row that ``min_by`` or ``max_by`` takes.

    Parameters
    ----------
    value : pyarrow.Array
        The aggregate's value in it; NULL for rows without one.
    other : RowPlaces
        Of the pair's other row; anything for rows without one.
    """

    value: pa.Array
    other: RowPlaces


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
    best : mapping of int to BestPairs
        By aggregate.
    """

    places: RowPlaces
    keys: pa.RecordBatch
    side_values: Mapping[int, Vector]
    folds: Mapping[tuple[FoldKey, Mode], Folds]
    best: Mapping[int, BestPairs]

    def __len__(self) -> int:
        return len(self.places.time)


def side_values(aggregation: Aggregation, columns: Columns, rows: int) -> dict[int, Vector]:
    """Compute each row's value, by aggregate number, for values that read only the group's side."""
    assert aggregation.side is not None
    group_side = frozenset({aggregation.side})
    return {
        k: evaluate_columns(one.value, columns, rows)
        for k, one in enumerate(aggregation.aggregates)
        if one.value is not None and one.by is None and not one.value.sides - group_side
    }
