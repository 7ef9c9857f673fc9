"""Rows folded over their matches, and partial aggregates of their groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns, Vector, evaluate_columns
from penstock.plan.folds import FoldKey, FoldPlan
from penstock.plan.query import Aggregation
from penstock.program import Mode

from ...device.base import Folds
from .floats import plain_keys
from .group_values import group_vector, product
from .partial import PartialGroups
from .pieces import NearestColumns, PartialColumn, by_type


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


class FoldGroups(PartialGroups):
    """Groups by keys of one side; its rows are folded over their matches.

    A row may be folded over some matches here and over others elsewhere: partial aggregates merge.
    """

    def partial(self, rows: RowFolds, plan: FoldPlan, *, are_unique: bool = False) -> pa.Table:
        """Make partial aggregates of rows, for :meth:`add`.

        Parameters
        ----------
        plan : FoldPlan
            Plan of the same aggregation.
        are_unique : bool
            Whether keys are declared unique: then it is tried first whether they are.

        Raises
        ------
        QueryError
            A key has a type that cannot be grouped.
        """
        columns: dict[str, pa.Array] = {
            name: plain_keys(column)
            for name, column in zip(self.keys, rows.keys.columns, strict=False)
        }
        if not columns:
            columns[self.keys[0]] = pa.array(np.zeros(len(rows), np.int64))
        for part in self._parts:
            columns[part.name] = self._terms(part, rows, plan)
        for one in self._nearest:
            columns |= self._best(one, rows, plan)
        first = zip(self._first_row, (rows.places.time, rows.places.place), strict=False)
        columns |= {name: pa.array(values) for name, values in first}
        table = pa.table(columns).select(self.schema.names)
        if are_unique and any(_differ(table.column(name)) for name in self.keys):
            return table.cast(self.schema)  # to merge nothing would take each step 0.4 ms
        return self._merged(table)

    def _terms(self, part: PartialColumn, rows: RowFolds, plan: FoldPlan) -> pa.Array:
        k = next(k for k, parts in enumerate(self._needs) if part in parts)
        need, one = plan.needs[k], self.aggregation.aggregates[k]
        side_value = rows.side_values.get(k)
        counts = np.zeros(0, np.int64)
        if "count" in need:
            counts = rows.folds[need["count"]].value
            if side_value is not None and side_value.valid is not None:
                counts = np.where(side_value.valid, counts, 0)
        if part.function == "count":
            return pa.array(counts.astype(np.int64))
        assert one.value is not None
        if part.function in need:
            fold = rows.folds[need[part.function]]
            return part.terms(group_vector(fold.value, fold.found), one.value.type)
        assert side_value is not None
        values = side_value.values
        if part.function == "sum":
            values = product(values, counts)
        return part.terms(group_vector(values, counts > 0), one.value.type)

    def _best(self, one: NearestColumns, rows: RowFolds, plan: FoldPlan) -> dict[str, pa.Array]:
        k = one.aggregate
        best, fold = rows.best[k], rows.folds[plan.needs[k]["nearest"]]
        dtype = by_type(self.aggregation.aggregates[k])
        by = PartialColumn("min", k, one.by).terms(group_vector(fold.value, fold.found), dtype)
        ties = (
            pa.array(best.other.time, mask=~fold.found),
            pa.array(best.other.place, mask=~fold.found),
            pa.array(rows.places.time),
            pa.array(rows.places.place),
        )
        return {
            one.by_name: by,
            **dict(zip(one.tie_names, ties, strict=True)),
            one.value_name: best.value,
        }


def _differ(column: pa.ChunkedArray) -> bool:
    """Whether no value of a column comes twice."""
    return len(column.unique()) == len(column)
