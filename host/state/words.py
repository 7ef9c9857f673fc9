"""Conversion of columns of values to words of entries, and back."""

from __future__ import annotations

import numpy as np

from penstock.expr.columns import Vector, int_vector
from penstock.types import Kind, Type

from ..emit.groups.floats import ordered
from ..keys.hashing import float_bits

_LOW = (1 << 64) - 1


def key_words(v: Vector, dtype: Type, words: int) -> np.ndarray:
    """Convert keys to words: integers, booleans, or a double's bits with one NaN and one zero.

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
    """Convert values to words that compare as in Spark, floats too; arbitrary where NULL."""
    return ordered(v.values)[:, None] if dtype.is_float else integer_words(v, words)


def plain_words(v: Vector, dtype: Type, words: int) -> np.ndarray:
    """Convert values to words to be carried along, floats as doubles; arbitrary where NULL."""
    if dtype.is_float:
        return v.values.astype(np.float64).view(np.int64)[:, None]
    return integer_words(v, words)


def sum_words(v: Vector) -> np.ndarray:
    """Convert floats to words to be added: doubles without -0.0, so that zero is neutral."""
    return (v.values.astype(np.float64) + 0.0).view(np.int64)[:, None]


def integer_words(v: Vector, words: int) -> np.ndarray:
    """Convert integers to words in two's complement, the lowest first; 0 where NULL."""
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
    """Convert words to integers, 0 where not valid: Python's own if one exceeds 64 bits.

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
    """Convert the words of :func:`key_words` and :func:`plain_words` back to values."""
    if dtype.is_float:
        floats = words[0].view(np.float64)
        return Vector(floats.astype(np.float32) if dtype.kind is Kind.FLOAT32 else floats, valid)
    v = integers(words, valid)
    return Vector(v.values.astype(bool), valid) if dtype.kind is Kind.BOOL else v


def _known(values: np.ndarray, v: Vector) -> np.ndarray:
    return values if v.valid is None else np.where(v.valid, values, values.dtype.type(0))
