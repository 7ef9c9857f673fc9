"""The one hash of a key: it finds a row's page in a relation, its waiting rows, its leader.

A key of several columns is folded column by column: ``h = mix(h * SPREAD + word)`` from ``SEED``
on, where ``mix`` is the finaliser of splitmix64 (:mod:`.splitmix`) and the words of a value are

- integers, decimals, times (the stored integer): the value, where it fits into 64 bits; else its
  64-bit words in two's complement, the lowest first, up to the one that holds its sign;
- floats: the bits of the double, with one NaN, and 0.0 for -0.0;
- booleans: 0 or 1;
- text and bytes: words of 8 bytes, little-endian, the last one filled with zeros, then the length.

The hash depends on values only, not on the Arrow type that holds them, so keys of 32 and 64 bits
meet. It is written into files: a change of it is a change of their format.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numba import njit

from penstock.expr.columns import Columns, Vector, evaluate_all
from penstock.expr.node import Expr
from penstock.kept_code import kept

from . import splitmix
from .splitmix import SEED, SPREAD

#: What the hash is called in files.
HASH = "splitmix64-1"

#: Word of a NULL key of a group.
NULL = np.uint64(0x6A09E667F3BCC909)
_NAN = 0x7FF8000000000000


def hash_keys(
    columns: Sequence[Vector], rows: int, seed: np.uint64 = SEED
) -> tuple[np.ndarray, np.ndarray | None]:
    """Hash the key of each row.

    Parameters
    ----------
    columns : sequence of Vector, each of shape (rows,)
        The values of the key's columns.
    rows : int
    seed : uint64, optional
        Another one gives another hash, which no file has.

    Returns
    -------
    hashes : ndarray of uint64, shape (rows,)
        Arbitrary where a column is NULL.
    valid : ndarray of bool, shape (rows,), or None
        False where a column is NULL; None if there is no NULL.
    """
    hashes = np.full(rows, seed, np.uint64)
    valid = None
    for column in columns:
        _add(hashes, column)
        if column.valid is not None:
            valid = column.valid if valid is None else valid & column.valid
    return hashes, valid


def hash_values(
    keys: Sequence[Expr], columns: Columns, rows: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Hash the values of some expressions in each row, as :func:`hash_keys`."""
    return hash_keys(evaluate_all(keys, columns, rows), rows)


def hash_groups(columns: Sequence[Vector], rows: int) -> np.ndarray:
    """Hash the keys of each row's group, as :func:`hash_keys`; NULLs are equal here.

    Returns
    -------
    ndarray of uint64
    """
    hashes = np.full(rows, SEED, np.uint64)
    for column in columns:
        known, valid = hashes.copy(), column.valid
        _add(hashes, column)
        if valid is not None:
            _add_words(known, np.full(rows, NULL, np.uint64))
            hashes = np.where(valid, hashes, known)
    return hashes


def _add(hashes: np.ndarray, column: Vector) -> None:
    values = column.values
    if values.dtype.kind == "f":
        _add_words(hashes, float_bits(values).view(np.uint64))
    elif values.dtype.kind == "b":
        _add_words(hashes, values.astype(np.uint64))
    elif values.dtype != object:
        _add_words(hashes, values.astype(np.int64).view(np.uint64))
    elif len(values) and isinstance(values[0], str | bytes):
        kind = pa.large_binary() if isinstance(values[0], bytes) else pa.large_string()
        array = pa.array(values, kind)
        _, offsets, data = array.buffers()
        content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        _add_bytes(hashes, np.frombuffer(offsets, np.int64), content)
    else:
        for row, value in enumerate(values.tolist()):
            words = _words(int(value))
            for word in words:
                _add_words(hashes[row : row + 1], word)


def float_bits(values: np.ndarray) -> np.ndarray:
    """The bits of floats as doubles, as int64: one NaN, and 0.0 for -0.0, as SQL compares them."""
    doubles = values.astype(np.float64) + 0.0
    bits = doubles.view(np.int64)
    bits[np.isnan(doubles)] = _NAN
    return bits


def _words(value: int) -> np.ndarray:
    """The 64-bit words of an integer, the lowest first, each as an array of one."""
    bits = value.bit_length() + 1
    count = max(1, -(-bits // 64))
    content = value.to_bytes(8 * count, "little", signed=True)
    return np.frombuffer(content, np.uint64).reshape(count, 1)


#: :func:`.splitmix.mixed` for loops that are compiled.
mix = njit(nogil=True)(splitmix.mixed)


@njit(nogil=True)
def hash_bytes(total, content, start, end):
    """Return a hash that goes on from ``total`` with the text ``content[start:end]``."""
    at = start
    while at + 8 <= end:
        word = np.uint64(0)
        for byte in range(8):
            word |= np.uint64(content[at + byte]) << np.uint64(8 * byte)
        total = mix(total * SPREAD + word)
        at += 8
    if at < end:
        word = np.uint64(0)
        for byte in range(end - at):
            word |= np.uint64(content[at + byte]) << np.uint64(8 * byte)
        total = mix(total * SPREAD + word)
    return mix(total * SPREAD + np.uint64(end - start))


@kept(splitmix)
def _add_words(hashes: np.ndarray, words: np.ndarray) -> None:
    for k in range(len(hashes)):
        hashes[k] = mix(hashes[k] * SPREAD + words[k])


@kept(splitmix)
def _add_bytes(hashes: np.ndarray, offsets: np.ndarray, content: np.ndarray) -> None:
    for k in range(len(hashes)):
        hashes[k] = hash_bytes(hashes[k], content, offsets[k], offsets[k + 1])
