"""The hash that orders a relation's rows: :mod:`host.keys.hashing`, or its first bits only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import FileError
from penstock.expr.columns import Vector

from ..keys.hashing import HASH, hash_keys
from ..rows.columns import load

#: In place of the hash of a key with a NULL. A key may have the same hash.
NULL_HASH = (1 << 64) - 1

_BITS = 64


class KeyHash:
    """A hash of keys, by its name in files.

    Parameters
    ----------
    name : str
        ``"splitmix64-1"``, or ``"splitmix64-1/8"`` for its first 8 bits: with these many keys
        share a hash, as tests want it.

    Raises
    ------
    FileError
        There is no such hash in this release.
    """

    def __init__(self, name: str = HASH) -> None:
        base, slash, bits = name.partition("/")
        if base != HASH or (slash and not (bits.isdigit() and 0 < int(bits) <= _BITS)):
            raise FileError(
                f"its rows are ordered by the hash {name}, which this release does not know; read "
                "it with the release that wrote it, or build it anew"
            )
        self.name = name
        dropped = _BITS - int(bits or _BITS)
        self._mask = np.uint64(NULL_HASH >> dropped << dropped)
        #: Whether keys of one word of 64 bits each have a hash of their own.
        self.is_one_to_one = not dropped

    def __call__(
        self, columns: Sequence[Vector], rows: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Hash keys, as :func:`~penstock.host.keys.hashing.hash_keys`."""
        hashes, valid = hash_keys(columns, rows)
        return hashes & self._mask, valid

    def of_rows(
        self, rows: pa.Table | pa.RecordBatch, key: Sequence[str], where: str
    ) -> np.ndarray:
        """Hashes of the keys of some rows; ``NULL_HASH`` where a column of the key is NULL.

        Parameters
        ----------
        rows : Table or RecordBatch
        key : sequence of str
        where : str
            Name of the rows in messages.
        """
        vectors = load(rows, key, {}, where)
        hashes, valid = self([vectors[name] for name in key], rows.num_rows)
        if valid is not None:
            hashes[~valid] = NULL_HASH
        return hashes
