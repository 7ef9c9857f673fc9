"""Columns of values as words of entries, and back."""

from __future__ import annotations

import numpy as np

from penstock.expr.columns import Vector, int_vector
from penstock.types import Kind, Type

from ..emit.groups.floats import ordered
from ..keys.hashing import float_bits

_LOW = (1 << 64) - 1


def key_words(v: Vector, dtype: Type, words: int) -> np.ndarray:
    """Keys as words: integers, booleans, or the bits of a double with one NaN and one zero.

    Parameters
    ----------
    v : Vector, shape (n,)
        Of integers, floats or booleans.
    words : int

    Returns
    -------
    ndarray of int64, shape (n, words)
        0 where NULL.
    """
    if dtype.is_float:
        return _known(float_bits(v.values), v)[:, None]
    return integer_words(v, words)


def order_words(v: Vector, dtype: Type, words: int) -> np.ndarray:
    """Values to compare as words: integers, and floats in Spark's order; arbitrary where NULL."""
    return ordered(v.values)[:, None] if dtype.is_float else integer_words(v, words)


def plain_words(v: Vector, dtype: Type, words: int) -> np.ndarray:
    """Values to carry along as words: floats as the bits of a double; arbitrary where NULL."""
    if dtype.is_float:
        return v.values.astype(np.float64).view(np.int64)[:, None]
    return integer_words(v, words)


def sum_words(v: Vector) -> np.ndarray:
    """Floats to add as words: doubles without a negative zero, so that zero adds nothing to any."""
    return (v.values.astype(np.float64) + 0.0).view(np.int64)[:, None]


def integer_words(v: Vector, words: int) -> np.ndarray:
    """Integers in two's complement, the lowest word first; 0 where NULL."""
    if v.values.dtype != object:
        low = _known(v.values.astype(np.int64), v)
        out = np.empty((len(low), words), np.int64)
        out[:, 0] = low
        out[:, 1:] = (low >> 63)[:, None]
        return out
    values = _known(v.values, v)
    parts = [((values >> (64 * k)) & _LOW).astype(np.uint64).view(np.int64) for k in range(words)]
    return np.stack(parts, axis=1) if len(values) else np.zeros((0, words), np.int64)


def integers(words: np.ndarray, valid: np.ndarray | None) -> Vector:
    """The integers of words, 0 where not valid: in Python's own if one exceeds 64 bits.

    Parameters
    ----------
    words : ndarray of int64, shape (w, n)
    valid : ndarray of bool or None
    """
    if valid is not None:
        words = np.where(valid, words, 0)
    low = words[0]
    if all((word == low >> 63).all() for word in words[1:]):
        return int_vector(low, valid)
    total = words[-1].astype(object)
    for word in words[-2::-1]:
        total = (total << 64) | word.view(np.uint64).astype(object)
    return int_vector(total, valid)


def plain_values(words: np.ndarray, dtype: Type, valid: np.ndarray | None) -> Vector:
    """The values of words from :func:`key_words` and :func:`plain_words`, as :func:`integers`."""
    if dtype.is_float:
        found = words[0].view(np.float64)
        return Vector(found.astype(np.float32) if dtype.kind is Kind.FLOAT32 else found, valid)
    v = integers(words, valid)
    return Vector(v.values.astype(bool), valid) if dtype.kind is Kind.BOOL else v


def _known(values: np.ndarray, v: Vector) -> np.ndarray:
    return values if v.valid is None else np.where(v.valid, values, values.dtype.type(0))
