"""Rows of Arrow arrays by index, and the order of rows by columns and by small numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Rows up to which the lock is kept: 20 microseconds per column.
FEW = 1 << 13


def word(dtype: pa.DataType) -> np.dtype | None:
    """An integer of the width of a type whose values are plain numbers; None for other types."""
    plain = (
        pa.types.is_integer(dtype)
        or pa.types.is_floating(dtype)
        or (pa.types.is_temporal(dtype) and dtype != pa.month_day_nano_interval())
    )
    return np.dtype(f"u{dtype.bit_width // 8}") if plain else None


def values(array: pa.Array, dtype: np.dtype) -> np.ndarray:
    """The values of an array of plain numbers, without a copy; arbitrary where NULL."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype)[array.offset : array.offset + len(array)]


def valid(array: pa.Array) -> np.ndarray | None:
    """Tell for each value whether it is not NULL; None if none is."""
    if not array.null_count:
        return None
    first, end = array.offset, array.offset + len(array)
    octets = np.frombuffer(array.buffers()[0], np.uint8)[first // 8 : -(-end // 8)]
    bits = np.unpackbits(octets, count=end - first // 8 * 8, bitorder="little")
    return bits[first % 8 :].view(bool)


def array_of(dtype: pa.DataType, data: np.ndarray, valid: np.ndarray | None) -> pa.Array:
    """The array of a type with these values, not copied; NULL where ``valid`` is false."""
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(dtype, len(data), [mask, pa.py_buffer(np.ascontiguousarray(data))])


def take(array: pa.Array, rows: np.ndarray) -> pa.Array:
    """The values at these places.

    Parameters
    ----------
    array : Array
    rows : ndarray of int, shape (n,)
        All in the array, which is not checked again. 32 bits are faster than 64.
    """
    plain = word(array.type)
    if plain is None or len(rows) > FEW or array.null_count:
        return pc.take(array, pa.array(rows), boundscheck=False)
    return array_of(array.type, values(array, plain)[rows], None)


def take_values(entries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The entries at these places, as :func:`take`."""
    if len(rows) <= FEW or entries.dtype.kind not in "iu":
        return entries[rows]
    return pc.take(pa.array(entries), pa.array(rows), boundscheck=False).to_numpy()


def take_batch(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    """The rows at these places, as :func:`take`."""
    columns = [take(column, rows) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def order_by(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """Return the row numbers that sort rows by these columns, ascending; NULL comes last."""
    table = pa.table({str(k): _comparable(column) for k, column in enumerate(columns)})
    keys = [(name, "ascending") for name in table.column_names]
    return pc.call_function("sort_indices", [table], pc.SortOptions(keys))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if pa.types.is_decimal32(column.type) or pa.types.is_decimal64(column.type):
        # Arrow sorts these as if they had no sign.
        return column.cast(pa.decimal128(column.type.precision, column.type.scale))
    return column


_DIGIT = 16


def order_of(numbers: np.ndarray, end: int) -> np.ndarray:
    """The order that sorts numbers; equal ones keep theirs.

    NumPy sorts words of 16 bits by counting, several times as fast as longer ones.

    Parameters
    ----------
    numbers : ndarray of int64, shape (n,)
        Each from 0 up to ``end``, which it is below.
    end : int
    """
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT, max(0, end - 1).bit_length(), _DIGIT):
        digit = (numbers[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order
