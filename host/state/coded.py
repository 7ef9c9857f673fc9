"""Columns whose values an entry holds as codes of texts: text, bytes, and types only compared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expr.node import Expr, Op
from penstock.types import Kind, Type


def is_coded(dtype: Type) -> bool:
    """Whether entries hold a value of a type as a code."""
    return dtype.is_text or dtype.kind is Kind.OTHER


def is_coded_column(expr: Expr) -> bool:
    """Whether an expression is a column whose values entries hold as codes."""
    return expr.op is Op.COLUMN and is_coded(expr.type)


def has_bytes(dtype: pa.DataType) -> bool:
    """Whether an Arrow type that nothing computes with has a form in bytes: times, fixed binary."""
    return pa.types.is_fixed_size_binary(dtype) or pa.types.is_time(dtype)


def as_bytes(array: pa.Array) -> pa.Array:
    """Convert a column to text or bytes that sort as its values do; dictionaries stay."""
    dtype = array.type
    if pa.types.is_dictionary(dtype):
        if not array.dictionary.null_count and not has_bytes(dtype.value_type):
            return array
        return as_bytes(array.dictionary_decode())
    if pa.types.is_time(dtype):
        # Times of day are never negative: their bytes from the highest on are in their order.
        width = dtype.bit_width // 8
        plain = array.view(pa.int32() if width == 4 else pa.int64()).fill_null(0)
        content = plain.to_numpy(zero_copy_only=False).astype(f">i{width}").tobytes()
        offsets = np.arange(len(array) + 1, dtype=np.int64) * width
        mask = None
        if array.null_count:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
            mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(content)]
        return pa.Array.from_buffers(pa.large_binary(), len(array), buffers)
    return array.cast(pa.large_binary()) if pa.types.is_fixed_size_binary(dtype) else array


def from_bytes(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Convert a column of large text or bytes back to the type it had before :func:`as_bytes`."""
    if not pa.types.is_time(dtype):
        return array.cast(dtype)
    width = dtype.bit_width // 8
    content = np.frombuffer(array.buffers()[2] or b"", f">i{width}")[: len(array)]
    return pa.array(content.astype(f"i{width}")).cast(dtype)
