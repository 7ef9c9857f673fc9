"""Computes the SELECT list and HAVING of a query with groups, from keys and aggregates."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.expr import ops
from penstock.expr.columns import Vector, evaluate_columns, int_vector
from penstock.expr.node import Expr, Op
from penstock.plan.group_query import Grouped
from penstock.plan.query import Aggregation
from penstock.types import Kind, Type

from ...rows.columns import SECONDS_OF_DAY, arrow_type, to_arrow, vector
from ..restore import Restorer

#: A column of a group: ``("key", k)`` or ``("agg", k)``.
Name = tuple[str, str]


class GroupSelect:
    """Makes output rows of groups.

    Parameters
    ----------
    query : JoinQuery or GroupQuery
    aggregation : Aggregation
        The query's aggregation, or a copy with more exact types of columns.
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables; a key, or the extreme of a column, keeps its Arrow type.
    """

    def __init__(
        self, query: Grouped, aggregation: Aggregation, schemas: Mapping[str, pa.Schema]
    ) -> None:
        self.aggregation = aggregation
        self._zone = query.zone_label
        self._schemas = schemas
        keys = tuple((str(k), key) for k, key in enumerate(aggregation.keys))
        #: Makes the keys of pairs, or of rows of the group's side.
        self.keys = Restorer(query, schemas, keys)
        #: Makes the value of the best pair, by number of the aggregate.
        self.values = {
            k: Restorer(query, schemas, (("value", a.value),))
            for k, a in enumerate(aggregation.aggregates)
            if a.by is not None and a.value is not None
        }
        self.schema = pa.schema(
            [pa.field(name, self._type_of(expr, name)) for name, expr in aggregation.select]
        )

    def batch(
        self, count: int, arrays: Mapping[Name, pa.Array], vectors: Mapping[Name, Vector]
    ) -> pa.RecordBatch:
        """Make one output row per group that HAVING admits.

        Parameters
        ----------
        count : int
            Groups.
        arrays : mapping of name to pyarrow.Array
            Keys, and aggregates that return a value of a column unchanged.
        vectors : mapping of name to Vector
            All other aggregates.
        """
        types = {("key", str(k)): key.type for k, key in enumerate(self.aggregation.keys)}
        types |= {("agg", str(k)): one.type for k, one in enumerate(self.aggregation.aggregates)}
        known = dict(vectors)
        for name, array in arrays.items():
            if types[name].kind is not Kind.OTHER:
                known[name] = as_vector(array, types[name])
        outputs = [
            arrays[expr.attr]
            if expr.op is Op.COLUMN and expr.attr in arrays
            else _as_array(evaluate_columns(expr, known, count), expr.type, field.type)
            for (_, expr), field in zip(self.aggregation.select, self.schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(outputs, schema=self.schema)
        if self.aggregation.having is ops.TRUE:
            return batch
        keep = evaluate_columns(self.aggregation.having, known, count)
        chosen = keep.values if keep.valid is None else keep.values & keep.valid
        return batch.filter(pa.array(chosen))

    def _type_of(self, expr: Expr, name: str) -> pa.DataType:
        """Return the Arrow type of an output column; an unchanged column keeps its own."""
        if expr.op is Op.COLUMN:
            kind, index = expr.attr
            if kind == "key":
                return self.keys.schema.field(int(index)).type
            one = self.aggregation.aggregates[int(index)]
            if int(index) in self.values:
                return self.values[int(index)].schema.field(0).type
            value = one.value if one.function in ("min", "max") else None
            if value is not None and value.op is Op.COLUMN and value.type.kind is not Kind.DECIMAL:
                side, column = value.attr
                dtype = self._schemas[side].field(column).type
                return dtype.value_type if pa.types.is_dictionary(dtype) else dtype
        return arrow_type(expr.type, name, self._zone)


def as_vector(array: pa.Array, dtype: Type) -> Vector:
    """Convert an output column to a vector for expressions."""
    is_scaled = dtype.kind is Kind.DECIMAL and not pa.types.is_decimal(array.type)
    v = vector(array, dtype.scale if is_scaled else None, "the output")
    if dtype.kind is Kind.DURATION and dtype.unit == "D":  # Arrow counts them in seconds
        return int_vector(v.values // SECONDS_OF_DAY, v.valid)
    return v


def _as_array(v: Vector, dtype: Type, target: pa.DataType) -> pa.Array:
    """Convert a vector to Arrow; ``target`` may be narrower than the type of computed columns."""
    if pa.types.is_integer(target) or pa.types.is_temporal(target) or pa.types.is_float32(target):
        return to_arrow(v, dtype, arrow_type(dtype, "")).cast(target)
    return to_arrow(v, dtype, target)
