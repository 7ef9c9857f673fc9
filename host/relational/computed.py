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
from penstock.types import Type

from ..rows.columns import arrow_type, to_arrow, vector
from ..rows.plain import plain_type

#: The greatest decimal that DuckDB has, without its point.
_MOST = 10**38 - 1


def function_of(made: Expr, leaves: tuple[Expr, ...], zone: str) -> Callable[..., pa.Array]:
    """Return the function that evaluates an expression, of an array for each of its columns.

    An expression without columns takes one array, which says how many rows there are.
    """
    returns = carried(made.type, zone)
    target = returns if is_coded(made.type) else _in_unit(returns, made.type)

    def run(*arrays: pa.Array) -> pa.Array:
        rows = len(arrays[0])
        columns = {
            leaf.attr: vector(_read(array, leaf.type), None, "a column")
            for leaf, array in zip(leaves, arrays, strict=False)
        }
        value = evaluate_columns(made, columns, rows)
        if not fits_int64(value.lo, value.hi):
            value = _tight(value)
        if pa.types.is_decimal(target) and max(-value.lo, value.hi) > _MOST:
            raise DataError(
                "a computed decimal needs more than 38 digits, which DuckDB does not have: CAST "
                "its operands to decimals of fewer digits, or leave such rows out"
            )
        if pa.types.is_int64(target) and not fits_int64(value.lo, value.hi):
            raise DataError(
                f"a computed {made.type} needs more than 64 bits; leave such rows out with WHERE "
                "or a subquery in FROM, or compute in a coarser unit"
            )
        found = to_arrow(value, made.type, target)
        try:
            return found if found.type == returns else found.cast(returns)
        except pa.ArrowInvalid:
            raise DataError(
                f"a computed {made.type} is beyond 64 bits of microseconds, which DuckDB has; "
                "leave such rows out with WHERE or a subquery in FROM"
            ) from None

    return run


def _tight(value: Vector) -> Vector:
    """The same integers with the bounds that they have, where a branch not taken may be wider."""
    values = value.values if value.valid is None else np.where(value.valid, value.values, 0)
    return int_vector(values, value.valid)


def _in_unit(dtype: pa.DataType, of: Type) -> pa.DataType:
    """A type of timestamps in the unit of a value."""
    return pa.timestamp(of.unit, dtype.tz) if pa.types.is_timestamp(dtype) else dtype


def _read(array: pa.Array, dtype: Type) -> pa.Array:
    """An argument in the unit of its type: DuckDB has instants in microseconds."""
    if pa.types.is_timestamp(array.type) and array.type.unit != dtype.unit:
        return array.cast(pa.timestamp(dtype.unit, array.type.tz))
    return array


def sent(table: pa.Table) -> pa.Table:
    """A table whose times are as DuckDB is to have them."""
    for place, field in enumerate(table.schema):
        own = field.type
        stored = own.storage_type if isinstance(own, pa.BaseExtensionType) else own
        travels = stored
        if is_coded(known_as(stored).type):
            travels = pa.int64()
        elif pa.types.is_fixed_size_binary(stored):  # a UUID would come back as text
            travels = pa.binary()
        if travels != own:
            table = table.set_column(place, field.name, _stored(table.column(place)).cast(travels))
    return table


def returned(table: pa.Table, outputs: Mapping[str, Known | None], zone: str | None) -> pa.Table:
    """A table of DuckDB's with the types that its columns are known to have."""
    for place, (field, known) in enumerate(zip(table.schema, outputs.values(), strict=False)):
        if known is None:
            continue
        target = plain_type(known.arrow or arrow_type(known.type, field.name, zone))
        # What is known of nested values that DuckDB makes is what the parser knows.
        if field.type == target or pa.types.is_nested(target) != pa.types.is_nested(field.type):
            continue
        if pa.types.is_null(target):
            table = table.set_column(place, field.name, pa.nulls(table.num_rows))
            continue
        is_extended = isinstance(target, pa.BaseExtensionType)
        column = table.column(place).cast(target.storage_type if is_extended else target)
        if is_extended:
            parts = [pa.ExtensionArray.from_storage(target, chunk) for chunk in column.chunks]
            column = pa.chunked_array(parts, target)
        table = table.set_column(place, field.name, column)
    return table


def _stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values that an extension type has below it."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return pa.chunked_array([one.storage for one in column.chunks], column.type.storage_type)
