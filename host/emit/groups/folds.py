"""Makes partial aggregates of groups from rows folded over their matches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.plan.folds import FoldPlan

from .floats import plain_keys
from .folded import RowFolds
from .partial import PartialGroups
from .pieces import NearestColumns, PartialColumn, by_type
from .values import group_vector, product


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
