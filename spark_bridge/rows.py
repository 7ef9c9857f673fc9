"""Rows from Spark, whose columns are in slots, and rows for Spark, in the types it expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa


def used_schema(slots: Mapping[str, str], schema: pa.Schema) -> pa.Schema:
    """Schema of those columns of a table that travel.

    Parameters
    ----------
    slots : mapping of column to slot
    schema : pyarrow.Schema
        Of the whole table.
    """
    return pa.schema([schema.field(name) for name in slots])


def from_slots(rows: pa.Table, slots: Mapping[str, str], schema: pa.Schema) -> pa.Table:
    """Rows of a table, with its own column names; parameters as for :func:`used_schema`."""
    used = used_schema(slots, schema)
    arrays = [
        _cast(rows.column(slot), field.type)
        for slot, field in zip(slots.values(), used, strict=True)
    ]
    return pa.table(arrays, schema=used)


def cast_to(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the types that Spark expects."""
    arrays = [
        _cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def in_batches(batch: pa.RecordBatch, schema: pa.Schema, most: int) -> Iterator[pa.RecordBatch]:
    """A batch with the types that Spark expects, in batches of at most ``most`` rows."""
    cast = cast_to(batch, schema)
    for at in range(0, cast.num_rows, most):
        yield cast.slice(at, most)


def _cast(column: Any, dtype: pa.DataType) -> Any:
    """An array, or a chunked one, of a type; one that has it stays."""
    # Arrow 26 spoils slices of lists of nothing but NULL, even where nothing is to be cast.
    return column if column.type == dtype else column.cast(dtype)


def message_of(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Rows as an Arrow message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue().to_pybytes()


def table_of(message: bytes | pa.Buffer) -> pa.Table:
    """The rows of :func:`message_of`."""
    with pa.ipc.open_stream(message) as reader:
        return reader.read_all()
