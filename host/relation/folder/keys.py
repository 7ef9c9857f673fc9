"""Keys that are compared value by value: different keys may have one hash."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...keys.hashing import float_bits


def key_codes(columns: Sequence[pa.Array]) -> np.ndarray:
    """Number the keys: equal keys get equal numbers; int64.

    NaN is equal to NaN and -0.0 to 0.0, as where keys are joined.

    Parameters
    ----------
    columns : sequence of Array
        The columns of the key, without NULL.
    """
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = _canonical(column).dictionary_encode()
        digit = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + digit, return_inverse=True)
    return codes


def _canonical(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    return pa.array(float_bits(column.to_numpy(zero_copy_only=False)))


def keys_within(rows: Sequence[pa.Array], keys: Sequence[pa.Array]) -> np.ndarray:
    """Whether each row's key is among ``keys``, as booleans."""
    both = [pa.concat_arrays([column, other]) for column, other in zip(rows, keys, strict=True)]
    codes = key_codes(both)
    return np.isin(codes[: len(rows[0])], codes[len(rows[0]) :])


def doubled(columns: Sequence[pa.Array], hashes: np.ndarray) -> int | None:
    """Position of a row that shares its key with another row; None if there is none.

    Parameters
    ----------
    columns : sequence of Array
    hashes : ndarray of uint64
        Ascending.
    """
    same = np.zeros(len(hashes) + 1, bool)
    same[1:-1] = hashes[1:] == hashes[:-1]
    rows = np.flatnonzero(same[1:] | same[:-1])
    if not len(rows):
        return None
    codes = key_codes([column.take(pa.array(rows)) for column in columns])
    order = np.argsort(codes, kind="stable")
    again = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    return int(rows[order[again[0] + 1]]) if len(again) else None


def shown_key(names: Sequence[str], columns: Sequence[pa.Array], row: int) -> str:
    """A key, for messages."""
    values = (f"{n} = {c[row].as_py()!r}" for n, c in zip(names, columns, strict=True))
    return " and ".join(values)
