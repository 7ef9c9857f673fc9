"""Rows of Arrow arrays by index.

Arrow's own ``take`` releases the interpreter's lock, and a thread of a busy process waits a whole
switch interval to get it back: many times the work of a few rows. So NumPy, which keeps the lock,
gathers small numbers of rows of plain numbers.
"""

from __future__ import annotations

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
