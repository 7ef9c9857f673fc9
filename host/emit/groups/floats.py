"""Converts floats to integers in Spark's order, and to keys of groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.types import Kind, Type

#: Code of NaN.
_NAN = np.iinfo(np.int64).max


def ordered(values: np.ndarray) -> np.ndarray:
    """Return int64 codes in the order of floats, NaN the greatest."""
    bits = (values.astype(np.float64) + 0.0).view(np.int64)
    codes = np.where(bits < 0, np.int64(np.iinfo(np.int64).min) - bits, bits)
    return np.where(np.isnan(values), _NAN, codes)


def unordered(codes: np.ndarray, dtype: Type) -> np.ndarray:
    """Return the floats of codes from :func:`ordered`."""
    bits = np.where(codes < 0, np.int64(np.iinfo(np.int64).min) - codes, codes)
    values = np.where(codes == _NAN, np.nan, bits.view(np.float64))
    return values.astype(np.float32) if dtype.kind is Kind.FLOAT32 else values


def plain_keys(array: pa.Array) -> pa.Array:
    """Return keys as they are compared: one NaN, and no negative zero."""
    if not pa.types.is_floating(array.type):
        return array
    plain = array.to_numpy(zero_copy_only=False) + array.type.to_pandas_dtype()(0)
    plain = np.where(np.isnan(plain), plain.dtype.type(np.nan), plain)
    return pa.array(plain, array.type, mask=array.is_null().to_numpy(zero_copy_only=False))
