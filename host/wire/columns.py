"""Columns of a window, a task or a result as Arrow, without copies where the layout allows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError
from penstock.host.wire.message import MalformedError

#: Metadata of a field that says how its values are meant.
_KIND = b"penstock"
#: Python integers of any size, as two's complement, lowest byte first.
_INTEGERS = b"integers"
_BOOLEANS = b"booleans"

_PLAIN = frozenset("iuf")


def batch_of(columns: Sequence[np.ndarray]) -> pa.RecordBatch:
    """Columns of one length as a record batch.

    Raises
    ------
    DeviceError
        Lengths differ, or a column has values that no key has.
    """
    rows = {len(column) for column in columns}
    if len(rows) > 1:
        raise DeviceError(f"columns have the lengths {sorted(rows)}; pass arrays of one length")
    fields, arrays = [], []
    for k, column in enumerate(columns):
        array, kind = _array(np.asarray(column))
        metadata = None if kind is None else {_KIND: kind}
        fields.append(pa.field(f"c{k}", array.type, nullable=False, metadata=metadata))
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _array(column: np.ndarray) -> tuple[pa.Array, bytes | None]:
    if column.dtype == np.bool_:
        return pa.array(np.ascontiguousarray(column).view(np.uint8)), _BOOLEANS
    if column.dtype.kind in _PLAIN:
        return pa.array(np.ascontiguousarray(column)), None
    values = column.tolist()
    if not all(type(value) is int for value in values):
        raise DeviceError(
            f"a column of {column.dtype} does not travel to a server of devices; prepare integers, "
            "booleans or floats"
        )
    sizes = ((value.bit_length() + 8) // 8 for value in values)
    made = [v.to_bytes(n, "little", signed=True) for v, n in zip(values, sizes, strict=True)]
    return pa.array(made, pa.large_binary()), _INTEGERS


def columns_of(batch: pa.RecordBatch) -> list[np.ndarray]:
    """Columns of a record batch; views of its memory, but for Python integers.

    Raises
    ------
    MalformedError
    """
    return [_column(batch.schema.field(k), batch.column(k)) for k in range(batch.num_columns)]


def _column(field: pa.Field, array: pa.Array) -> np.ndarray:
    kind = (field.metadata or {}).get(_KIND)
    if array.null_count:
        raise MalformedError(f"column {field.name} has NULLs; keys have none")
    if kind == _INTEGERS and pa.types.is_large_binary(field.type):
        column = np.empty(len(array), object)
        column[:] = [int.from_bytes(value, "little", signed=True) for value in array.to_pylist()]
        return column
    if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
        column = array.to_numpy(zero_copy_only=True)
        if kind == _BOOLEANS:
            # Any other byte than 0 and 1 would be a boolean that equals neither.
            return column != 0
        return column
    raise MalformedError(f"column {field.name} has type {field.type}, which no key has")


def encoded(batch: pa.RecordBatch) -> pa.Buffer:
    """A record batch as an IPC stream in memory of its own."""
    sink = pa.BufferOutputStream()
    write_to(sink, batch)
    return sink.getvalue()


def write_to(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    """Write a record batch as an IPC stream."""
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def encoded_size(batch: pa.RecordBatch) -> int:
    """Bytes of :func:`encoded`, exactly."""
    sink = pa.MockOutputStream()
    write_to(sink, batch)
    return sink.size()


def decoded(body: pa.Buffer) -> pa.RecordBatch:
    """The record batch that an IPC stream holds; it refers to the body's memory.

    Raises
    ------
    MalformedError
    """
    try:
        with pa.ipc.open_stream(body) as reader:
            batch = reader.read_next_batch()
        batch.validate()
    except (pa.ArrowInvalid, OSError, StopIteration, ValueError) as cause:
        raise MalformedError(f"a message has a body that is no Arrow stream ({cause})") from cause
    return batch
