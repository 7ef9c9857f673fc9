"""Conversion of the rows that a caller gives to the types that a table or stream works with.

No conversion loses anything: a column of nothing but NULL gets any type, text and bytes another
layout of Arrow, numbers and times a type or unit that holds each of their values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from penstock.errors import DataError, SchemaError, UsageError
from penstock.types import unmarked

from .plain import decoded, received_type, relaid

#: Kinds of values; those of one kind can be written in any type of it, if each of them fits.
_KINDS = (
    lambda t: types.is_integer(t) or types.is_floating(t) or types.is_decimal(t),
    lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t),
    lambda t: (
        types.is_binary(t)
        or types.is_large_binary(t)
        or types.is_binary_view(t)
        or types.is_fixed_size_binary(t)
    ),
    types.is_date,
    types.is_time,
    types.is_duration,
    lambda t: types.is_timestamp(t) and t.tz is None,
    lambda t: types.is_timestamp(t) and t.tz is not None,
    lambda t: _is_list(t),
    types.is_map,
)


def arrow_table(rows: Any, label: str, *, also: str = "") -> pa.Table:
    """Return rows as an Arrow table.

    Parameters
    ----------
    rows : Table, RecordBatch, or anything with the Arrow C stream interface
    label : str
        What the rows are, for messages: "table t".
    also : str
        What else may be given in their place, for messages: "a path, ".

    Raises
    ------
    UsageError
        The object has no rows for Arrow.
    """
    if isinstance(rows, pa.Table):
        return rows
    offers = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")
    if not any(hasattr(rows, offer) for offer in offers):
        raise UsageError(
            f"{label} must be {also}a pyarrow.RecordBatch or Table, or an object with "
            f"__arrow_c_stream__ (a pandas or Polars frame), not {type(rows).__name__}"
        )
    try:
        return pa.table(rows)
    except MemoryError:
        raise
    except Exception as cause:  # whatever a foreign object raises
        raise UsageError(
            f"{label}, a {type(rows).__name__}, gives no Arrow data: {cause}"
        ) from cause


def received_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with its columns in their :func:`received_type`."""
    return pa.schema(
        [unmarked(field).with_type(received_type(field.type)) for field in schema], schema.metadata
    )


def received_table(table: pa.Table) -> pa.Table:
    """Return a table with its :func:`received_schema`."""
    schema = received_schema(table.schema)
    if schema.equals(table.schema, check_metadata=True):
        return table
    columns = [
        column
        if column.type == field.type
        else pa.chunked_array([relaid(one, field.type) for one in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def one_batch(rows: Any, schema: pa.Schema, source: str) -> pa.RecordBatch:
    """Return pushed rows as one batch with the columns of the source.

    Parameters
    ----------
    rows
        As for :func:`arrow_table`.

    Raises
    ------
    UsageError
        The object has no rows for Arrow.
    SchemaError
        A column is missing or there twice, or its values do not all fit the source's type.
    DataError
        A column is too large for one batch.
    """
    if isinstance(rows, pa.RecordBatch) and rows.schema.equals(schema):
        return rows
    table = arrow_table(rows, f"a batch of {source}")
    columns = [_column(table, field, source) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(table: pa.Table, field: pa.Field, source: str) -> pa.Array:
    """Return a column of a batch in the type of a field."""
    where = f"a batch of {source}"
    count = table.column_names.count(field.name)
    if count != 1:
        has = "no column" if not count else f"{count} columns"
        raise SchemaError(f"{where} has {has} {field.name}")
    chunks, row = [], 0
    for chunk in table.column(field.name).chunks:
        chunks.append(fitted(chunk, field, where, "the stream was opened with", row))
        row += len(chunk)
    if len(chunks) == 1:
        return chunks[0]
    try:
        return pa.concat_arrays(chunks) if chunks else pa.nulls(0, field.type)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column {field.name} of {where} is too large for one batch ({error}); "
            "push its rows in several"
        ) from None


def fitted(array: pa.Array, field: pa.Field, where: str, declared: str, first: int = 0) -> pa.Array:
    """Return a column in the type of a field.

    Parameters
    ----------
    where, declared : str
        For messages: whose column it is ("a batch of t"), and who wants the field's type ("the
        stream was opened with").
    first : int
        Row of the first value.

    Raises
    ------
    SchemaError
        A value does not fit the field's type.
    """
    if array.type == field.type:
        return array
    is_kin = _is_kin(array.type, field.type)
    if is_kin and (written := _written(array, field.type)) is not None:
        return written
    message = f"column {field.name} of {where} is {array.type}, but {declared} {field.type}"
    if is_kin:
        row = _first_lost(array, field.type)
        message += f", which cannot hold {_shown(array.slice(row, 1))} of row {first + row}"
    raise SchemaError(message)


def _is_kin(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether some values of a type can be converted to another one."""
    one, other = _bare(one), _bare(other)
    if types.is_null(one) or one == other:
        return True
    if types.is_struct(one) and types.is_struct(other):
        names = [[field.name for field in dtype] for dtype in (one, other)]
        fields = zip(one, other, strict=False)
        return names[0] == names[1] and all(_is_kin(a.type, b.type) for a, b in fields)
    if not any(is_one(one) and is_one(other) for is_one in _KINDS):
        return False
    if types.is_map(one):
        return _is_kin(one.key_type, other.key_type) and _is_kin(one.item_type, other.item_type)
    return not _is_list(one) or _is_kin(one.value_type, other.value_type)


def _is_list(dtype: pa.DataType) -> bool:
    is_view = types.is_list_view(dtype) or types.is_large_list_view(dtype)
    return is_view or types.is_list(dtype) or types.is_large_list(dtype)


def _bare(dtype: pa.DataType) -> pa.DataType:
    """Return a type without dictionaries, runs and extensions around it."""
    if types.is_dictionary(dtype) or types.is_run_end_encoded(dtype):
        return _bare(dtype.value_type)
    return dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else dtype


def _written(array: pa.Array, dtype: pa.DataType) -> pa.Array | None:
    """Return an array in another type; None if a value would change."""
    if isinstance(dtype, pa.BaseExtensionType):
        stored = _written(array, dtype.storage_type)
        return None if stored is None else dtype.wrap_array(stored)
    plain = decoded(array)
    if types.is_null(plain.type):
        return pa.nulls(len(plain), dtype)
    try:
        written = _cast(plain, dtype)
        # Arrow does not tell when a cast of these changes a value.
        may_lose = (types.is_floating, types.is_decimal, types.is_date)
        if any(is_one(t) for is_one in may_lose for t in (plain.type, dtype)):
            return written if _is_same(_cast(written, plain.type), plain) else None
        return written
    except pa.ArrowException:
        return None


def _cast(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    between = _between(array.type, dtype)
    return (array if between is None else array.cast(between)).cast(dtype)


def _between(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return an intermediate type for a cast that Arrow needs two steps for; else None."""
    if types.is_dictionary(other):
        return other.value_type
    if types.is_decimal(one) == types.is_decimal(other):
        return None
    if types.is_float16(one) or types.is_float16(other):
        return pa.float64()
    if types.is_decimal(one):  # Arrow checks a range whose ends a narrow decimal cannot hold
        return pa.decimal256(76, one.scale)
    # Without this Arrow wants a decimal with room for all integers of the type.
    return pa.decimal128(20, 0) if types.is_integer(one) else None


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    if not types.is_floating(one.type):
        return one.equals(other)
    values = (array.to_numpy(zero_copy_only=False) for array in (one, other))
    return np.array_equal(*values, equal_nan=True)


def _first_lost(array: pa.Array, dtype: pa.DataType) -> int:
    """Return the position of the first value that does not fit a type."""
    low, high = 0, len(array) - 1
    while low < high:
        middle = (low + high) // 2
        if _written(array.slice(low, middle + 1 - low), dtype) is None:
            high = middle
        else:
            low = middle + 1
    return low


def _shown(value: pa.Array) -> str:
    """Return the only value of an array as text."""
    try:
        return str(decoded(value).cast(pa.string())[0])
    except pa.ArrowException:
        return str(value[0])
