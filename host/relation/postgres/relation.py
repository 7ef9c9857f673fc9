"""A table in a PostgreSQL server as a relation."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import FileError

from ..border import PageIndex, ServerRelation
from ..key_hash import KeyHash
from ..slices import slices_of_hashes
from .ages import ReadLog
from .described_table import PostgresTable
from .key_parameters import has_keys_in
from .location import PostgresLocation, masked
from .server import PostgresServer
from .version import PostgresVersion

#: Hashes of read keys that are remembered at most and at least: 8 bytes each.
_MOST_READ, _LEAST_READ = 1 << 20, 1 << 14
#: Bytes of blocks that are read at once at least.
_RANGE_BYTES = 1 << 18
#: Number of newest versions whose too old keys are remembered.
_KNOWN = 64


class PostgresRelation(ServerRelation):
    """A table that is asked for keys, or read by ranges of blocks.

    Parameters
    ----------
    address : str
        As for :meth:`PostgresLocation.parsed`.
    hash : str
        Name of the hash of keys.

    Raises
    ------
    ServerError
        The server cannot be reached, or refuses.
    SchemaError
        There is no such table or column, or it cannot be a key.
    MissingToolError
        The driver is not installed.
    UsageError
        The address names no table, or a value cannot be read.
    """

    kind = "PostgreSQL"
    masked = staticmethod(masked)

    def __init__(self, address: str, hash: str | None = None) -> None:
        self.location = location = PostgresLocation.parsed(address)
        self.name = location.name
        self.key_hash = KeyHash() if hash is None else KeyHash(hash)
        self._server = PostgresServer(location)
        try:
            self._table = PostgresTable.described_by(self._server)
            self._check_encoding()
        except BaseException:
            self._server.close()
            raise
        table = self._table
        self.schema, self.key = table.schema, table.key
        self.id = f"{self.name} {table.name} {table.key} {table.schema}"
        self.cluster, self.unique = (), False
        most = min(_MOST_READ, max(_LEAST_READ, 2 * table.rows))
        self._log = ReadLog(location.max_age_s, most)
        self._pages = self._index(most if location.max_age_s else 0)
        #: Number of a version, and the keys that grew too old with it; None: all.
        self._old: deque[tuple[int, np.ndarray | None]] = deque(maxlen=_KNOWN)
        self._lock = threading.Lock()
        self._version = self._at(1)

    def check_used(self, columns: Sequence[str]) -> None:
        for name in columns:
            self._table.columns[name].check(self.name)

    def newest(self) -> int:
        """Another number once rows were read, or some kept ones are too old."""
        with self._lock:
            now = self._version
            return now.number + (now.snapshot.begun or self._log.is_due(time.monotonic()))

    def version(self, number: int | None = None) -> PostgresVersion:
        if number is None:
            number = self.newest()
        with self._lock:
            if number > self._version.number:
                keeps = self.location.max_age_s > 0
                self._old.append((number, self._log.take(time.monotonic()) if keeps else None))
                self._version = self._at(number)
            if number < self._version.number:
                raise FileError(
                    f"{self.name} keeps no version {number}: it is asked for its rows of now; "
                    "read the newest one"
                )
            return self._version

    def info(self) -> dict[str, Any]:
        table, where = self._table, self.location
        return {
            "name": self.name,
            "table": table.name,
            "rows": table.rows,
            "bytes": table.rows * table.row_bytes,
            "key": list(table.key),
            "is_indexed": table.is_indexed,
            "encoding": table.encoding,
            "blocks": table.blocks,
            "max_age_s": where.max_age_s,
            "columns": {one.name: one.lacks or str(one.type) for one in table.columns.values()},
        }

    def close(self) -> None:
        self._server.close()

    def _check_encoding(self) -> None:
        table = self._table
        texts = [one for one in table.key if pa.types.is_string(table.columns[one].type)]
        if texts and not has_keys_in(table.encoding):
            raise FileError(
                f"{self.name} has the encoding {table.encoding}, and which texts it can hold is "
                f"not known here, so {', '.join(texts)} cannot be a key; use a database in UTF8"
            )

    def _index(self, log_rows: int) -> tuple[PageIndex, PageIndex, np.ndarray]:
        """Slices of the hashes; ranges of blocks, and where they begin."""
        table = self._table
        keyed = slices_of_hashes(table.rows, table.rows * table.row_bytes)
        index = replace(keyed, memory_bytes=keyed.memory_bytes + 8 * log_rows)
        step = max(1, _RANGE_BYTES // table.block_bytes)
        blocks = np.arange(0, table.blocks, step)
        pages = max(1, len(blocks))
        size = step * table.block_bytes if len(blocks) else table.rows * table.row_bytes
        rows = np.full(pages, min(max(1, table.rows // pages), (1 << 31) - 1), np.int32)
        sizes = np.full(pages, min(max(1, size), (1 << 31) - 1), np.int32)
        none = np.zeros(0, np.uint64)
        scanned = PageIndex(none, rows, sizes, {}, rows.nbytes + sizes.nbytes + blocks.nbytes)
        return index, scanned, blocks

    def _at(self, number: int) -> PostgresVersion:
        return PostgresVersion(
            number,
            self._table,
            self._server,
            self.key_hash,
            self._log,
            self._pages,
            self._changed,
        )

    def _changed(self, since: int, until: int) -> np.ndarray | None:
        """Keys that grew too old after one version, up to another."""
        with self._lock:
            changes = [(n, old) for n, old in self._old if since < n <= until]
        if len(changes) < until - since or any(old is None for _, old in changes):
            return None
        return np.unique(np.concatenate([old for _, old in changes if old is not None]))
