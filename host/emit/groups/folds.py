"""Makes partial aggregates of groups from rows folded over their matches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector
from penstock.plan.folds import FoldKey, FoldPlan
from penstock.program import Mode
from penstock.types import Type

from ...device.base import Folds
from ...rows.columns import to_arrow
from .floats import ordered, plain_keys
from .folded import RowFolds
from .partial import PartialGroups
from .pieces import NearestColumns, PartialColumn, by_type
from .values import product


class FoldGroups(PartialGroups):
    """Groups by keys of one side; its rows are folded over their matches.

    A row may be folded over some matches here and over others elsewhere: partial aggregates merge.
    """

    def partial(self, rows: RowFolds, plan: FoldPlan) -> pa.Table:
        """Make partial aggregates of rows, for :meth:`add`.

        Parameters
        ----------
        plan : FoldPlan
            Plan of the same aggregation.

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
        return self._merged(pa.table(columns).select(self.schema.names))

    def _terms(self, part: PartialColumn, rows: RowFolds, plan: FoldPlan) -> pa.Array:
        k = self._aggregate_of(part)
        need, one = plan.needs[k], self.aggregation.aggregates[k]
        side_value = rows.side_values.get(k)
        counts = None if need.count is None else _counts(rows.folds[need.count], side_value)
        if part.function == "count":
            assert counts is not None
            return pa.array(counts.astype(np.int64))
        assert one.value is not None
        values, is_known = _values(rows.folds, need.fold, side_value, counts)
        if part.function == "sum" and need.fold is None:
            assert counts is not None
            values = product(values, counts)
        return _column(part, values, is_known, one.value.type)

    def _aggregate_of(self, part: PartialColumn) -> int:
        """Return the number of an aggregate that has this part."""
        return next(k for k, parts in enumerate(self._needs) if part in parts)

    def _best(self, one: NearestColumns, rows: RowFolds, plan: FoldPlan) -> dict[str, pa.Array]:
        k = one.aggregate
        need, best = plan.needs[k].fold, rows.best[k]
        assert need is not None
        fold = rows.folds[need]
        dtype = by_type(self.aggregation.aggregates[k])
        by = _column(PartialColumn("min", k, one.by), fold.value, fold.found, dtype)
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


def _counts(fold: Folds, side_value: Vector | None) -> np.ndarray:
    """Return the number of matches of each row that the aggregate counts."""
    if side_value is None or side_value.valid is None:
        return fold.value
    return np.where(side_value.valid, fold.value, 0)


def _values(
    folds: Mapping[tuple[FoldKey, Mode], Folds],
    fold: tuple[FoldKey, Mode] | None,
    side_value: Vector | None,
    counts: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of each row, and whether it has one."""
    if fold is not None:
        return folds[fold].value, folds[fold].found
    assert side_value is not None
    assert counts is not None
    return side_value.values, counts > 0


def _column(part: PartialColumn, values: np.ndarray, is_known: np.ndarray, dtype: Type) -> pa.Array:
    if dtype.is_float and part.function != "sum":
        return pa.array(ordered(values), mask=~is_known)
    if dtype.is_float:
        return pa.array(values.astype(np.float64), mask=~is_known)
    if values.dtype == bool:
        values = values.astype(np.int64)
    if values.dtype == object:
        values = np.where(is_known, values, 0)
    return to_arrow(Vector(values, is_known), dtype, part.type)
