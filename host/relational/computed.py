"""Penstock's expressions as functions of DuckDB: columns in, a column out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from penstock.around.carried import Known, carried, is_coded, known_as
from penstock.errors import DataError
from penstock.expr.columns import evaluate_columns
from penstock.expr.node import Expr
from penstock.expr.vector import Vector, fits_int64, int_vector
from penstock.types import Type, marked

from ..rows.columns import arrow_type, to_arrow, vector
from ..rows.plain import plain_type

#: The greatest decimal that DuckDB has, without its point.
_MOST = 10**38 - 1


def function_of(expr: Expr, leaves: tuple[Expr, ...], zone: str) -> Callable[..., pa.Array]:
    """Return a function that evaluates an expression; it takes an array per column.

    For an expression without columns it takes one array, whose length is the number of rows.
    """
    returns = carried(expr.type, zone)
    target = returns if is_coded(expr.type) else _in_unit(returns, expr.type)

    def run(*arrays: pa.Array) -> pa.Array:
        rows = len(arrays[0])
        columns = {
            leaf.attr: vector(_read(array, leaf.type), None, "a column")
            for leaf, array in zip(leaves, arrays, strict=False)
        }
        value = evaluate_columns(expr, columns, rows)
        if not fits_int64(value.lo, value.hi):
            value = _tight(value)
        if pa.types.is_decimal(target) and max(-value.lo, value.hi) > _MOST:
            raise DataError(
                "a computed decimal needs more than 38 digits, which DuckDB does not have: CAST "
                "its operands to decimals of fewer digits, or leave such rows out"
            )
        if pa.types.is_int64(target) and not fits_int64(value.lo, value.hi):
            raise DataError(
                f"a computed {expr.type} needs more than 64 bits; leave such rows out with WHERE "
                "or a subquery in FROM, or compute in a coarser unit"
            )
        result = to_arrow(value, expr.type, target)
        try:
            return result if result.type == returns else result.cast(returns)
        except pa.ArrowInvalid:
            raise DataError(
                f"a computed {expr.type} is beyond 64 bits of microseconds, which DuckDB has; "
                "leave such rows out with WHERE or a subquery in FROM"
            ) from None

    return run


def _tight(value: Vector) -> Vector:
    """Return the same integers with exact bounds: a branch not taken may have widened them."""
    values = value.values if value.valid is None else np.where(value.valid, value.values, 0)
    return int_vector(values, value.valid)


def _in_unit(dtype: pa.DataType, value: Type) -> pa.DataType:
    """Return the type; timestamps get the unit of the value's type."""
    return pa.timestamp(value.unit, dtype.tz) if pa.types.is_timestamp(dtype) else dtype


def _read(array: pa.Array, dtype: Type) -> pa.Array:
    """Convert an argument to the unit of its type: DuckDB has instants in microseconds."""
    if pa.types.is_timestamp(array.type) and array.type.unit != dtype.unit:
        return array.cast(pa.timestamp(dtype.unit, array.type.tz))
    return array


def sent(table: pa.Table) -> pa.Table:
    """Convert a table for DuckDB: times become coded integers, UUIDs become bytes."""
    for place, field in enumerate(table.schema):
        dtype = field.type
        stored = dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else dtype
        travels = stored
        if is_coded(known_as(stored).type):
            travels = pa.int64()
        elif pa.types.is_fixed_size_binary(stored):  # a UUID would come back as text
            travels = pa.binary()
        if travels != dtype:
            table = table.set_column(place, field.name, _stored(table.column(place)).cast(travels))
    return table


def returned(table: pa.Table, outputs: Mapping[str, Known | None], zone: str | None) -> pa.Table:
    """Convert a table from DuckDB to the known types of its columns."""
    for place, (field, known) in enumerate(zip(table.schema, outputs.values(), strict=False)):
        if known is not None:
            target = plain_type(known.arrow or arrow_type(known.type, field.name, zone))
            column = _cast(table.column(place), target)
            field = marked(pa.field(field.name, column.type), known.type)
            table = table.set_column(place, field, column)
    return table


def _cast(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    # The parser knows less of nested values than DuckDB's own types say.
    if column.type == target or pa.types.is_nested(target) != pa.types.is_nested(column.type):
        return column
    if pa.types.is_null(target):
        return pa.chunked_array([pa.nulls(len(column))])
    if not isinstance(target, pa.BaseExtensionType):
        return column.cast(target)
    stored = column.cast(target.storage_type)
    return pa.chunked_array(
        [pa.ExtensionArray.from_storage(target, chunk) for chunk in stored.chunks], target
    )


def _stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the storage of a column of an extension type; others as they are."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return pa.chunked_array([one.storage for one in column.chunks], column.type.storage_type)
