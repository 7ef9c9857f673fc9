"""Dtypes of prepared keys in memory."""

from __future__ import annotations

import numpy as np

from penstock.errors import DeviceError
from penstock.types import Kind, Type

_SIGNED = (np.int8, np.int16, np.int32, np.int64)


def storage_dtype(dtype: Type) -> np.dtype:
    """NumPy dtype of a key column of this type.

    Parameters
    ----------
    dtype : Type
        Type of a key; ``nullable`` is ignored, since keys are never NULL.

    Returns
    -------
    dtype
        ``bool``; ``float32``; ``float64``; the smallest of ``int8`` to ``int64`` that holds
        ``[lo, hi]``; beyond them ``uint64``, and beyond that ``object`` (Python integers). Text is
        ``object`` (str or bytes).

    Raises
    ------
    DeviceError
        The type is NULL, which no device joins on.
    """
    if dtype.kind is Kind.BOOL:
        return np.dtype(np.bool_)
    if dtype.kind is Kind.FLOAT32:
        return np.dtype(np.float32)
    if dtype.kind is Kind.FLOAT64:
        return np.dtype(np.float64)
    if dtype.is_text:
        return np.dtype(object)
    if not dtype.is_integral:
        raise DeviceError(
            f"a key of type {dtype} cannot be stored on a device; prepare an integer, boolean, "
            "float or text key from it"
        )
    for signed in _SIGNED:
        info = np.iinfo(signed)
        if info.min <= dtype.lo and dtype.hi <= info.max:
            return np.dtype(signed)
    if dtype.lo >= 0 and dtype.hi < 1 << 64:
        return np.dtype(np.uint64)
    return np.dtype(object)


def key_dtype(key_bits: int) -> np.dtype:
    """NumPy dtype of the codes of a band program: ``uint16``, ``uint32`` or ``uint64``.

    Parameters
    ----------
    key_bits : int
        ``BandProgram.key_bits``, 2 to 64.
    """
    return np.dtype(np.uint16 if key_bits <= 16 else np.uint32 if key_bits <= 32 else np.uint64)
