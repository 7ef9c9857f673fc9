"""Groups of pairs by keys of both sides, added batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.plan.query import JoinQuery

from .floats import plain_keys
from .partial import PartialGroups
from .pieces import PartialColumn
from .select import as_vector


class PairGroups(PartialGroups):
    """Groups of the rows of a join that selects their keys and values.

    Parameters and errors as for :class:`~penstock.host.emit.groups.partial.PartialGroups`; the keys
    are of both sides.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        super().__init__(query, schemas)
        select = list(zip(self.keys, self.aggregation.keys, strict=True))
        select += [
            (_column(k), one.value)
            for k, one in enumerate(self.aggregation.aggregates)
            if one.value is not None
        ]
        #: The join whose rows are grouped.
        self.pairs = replace(query, aggregation=None, select=tuple(select))

    def partial(self, batch: pa.RecordBatch) -> pa.Table:
        """Make partial aggregates of rows of the join, for :meth:`add`.

        Any thread may call it; nothing changes.

        Raises
        ------
        QueryError
            A key has a type that cannot be grouped.
        """
        columns = {name: plain_keys(batch.column(name)) for name in self.keys}
        columns |= {part.name: self._terms(part, batch) for part in self._parts}
        return self._merged(pa.table(columns))

    def _terms(self, part: PartialColumn, batch: pa.RecordBatch) -> pa.Array:
        """Return the terms, one per row, that a column of partial aggregates merges."""
        if part.value is None:
            return pa.array(np.ones(batch.num_rows, np.int64))
        array = batch.column(_column(part.value))
        if part.function == "count":
            return array.is_valid().cast(pa.int64())
        one = self.aggregation.aggregates[part.value].value
        assert one is not None
        return part.terms(as_vector(array, one.type), one.type)


def _column(k: int) -> str:
    return f"value {k}"
