"""Makes output columns from row numbers of pairs: restored by index, or computed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector, evaluate_columns
from penstock.expr.node import PRESENT, Expr, Op
from penstock.plan.query import LEFT, RIGHT, JoinQuery, columns

from ..rows import gather
from ..rows.columns import arrow_type, load, to_arrow

#: Most rows of one output batch.
BATCH_ROWS = 1 << 20


class Restorer:
    """Builds the SELECT list for pairs of row numbers.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables; a selected column keeps its Arrow type.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        self.query = query
        self.scales = {side: query.scale_of(side) for side in (LEFT, RIGHT)}
        fields = []
        self.computed: list[bool] = []
        for name, expr in query.select:
            plain = expr.op is Op.COLUMN
            self.computed.append(not plain)
            if plain:
                side, column = expr.attr
                fields.append(pa.field(name, _flat(schemas[side].field(column).type)))
            else:
                fields.append(pa.field(name, arrow_type(expr.type, name, query.zone_label)))
        self.schema = pa.schema(fields)
        needed = [columns(expr) for _, expr in query.select if expr.op is not Op.COLUMN]
        self.inputs = set().union(*needed) if needed else set()

    def restore(
        self, tables: Mapping[str, pa.RecordBatch | pa.Table], left: np.ndarray, right: np.ndarray
    ) -> pa.RecordBatch:
        """Make output rows of the pairs ``(left[k], right[k])``.

        Parameters
        ----------
        tables : mapping of side to rows
            The base rows that the indices refer to.
        left, right : ndarray of int, shape (m,)
            -1 where a row of the other side leaves alone; the columns of this side are NULL then.
        """
        row = {LEFT: left, RIGHT: right}
        taken: dict[tuple[str, str], pa.Array] = {}

        def take(side: str, column: str) -> pa.Array:
            if (side, column) not in taken:
                source = tables[side].column(column)
                if isinstance(source, pa.ChunkedArray):
                    source = source.chunk(0) if source.num_chunks == 1 else source.combine_chunks()
                found = self._taken(source, side, row[side])
                if pa.types.is_dictionary(found.type):
                    found = found.dictionary_decode()
                taken[side, column] = found
            return taken[side, column]

        vectors: dict[tuple[str, str | None], Vector] = {
            (side, PRESENT): Vector(row[side] >= 0) for side in self.query.kind.null_supplying
        }
        for side, column in self.inputs:
            batch = pa.record_batch([take(side, column)], names=[column])
            own = self.query.side(side).alias
            vectors[side, column] = load(batch, [column], self.scales[side], own)[column]
        arrays = [
            self._compute(expr, field.type, vectors, len(left)) if computed else take(*expr.attr)
            for (_, expr), field, computed in zip(
                self.query.select, self.schema, self.computed, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _taken(self, source: pa.Array, side: str, row: np.ndarray) -> pa.Array:
        if side in self.query.kind.null_supplying and len(row) and int(row.min()) < 0:
            return source.take(pa.array(row, mask=row < 0))
        return gather.take(source, row)

    @staticmethod
    def _compute(
        expr: Expr, target: pa.DataType, vectors: Mapping[tuple[str, str | None], Vector], rows: int
    ) -> pa.Array:
        return to_arrow(evaluate_columns(expr, vectors, rows), expr.type, target)


def _flat(dtype: pa.DataType) -> pa.DataType:
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype
