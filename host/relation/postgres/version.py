"""A state of a table in PostgreSQL: one snapshot, and rows that are kept from earlier ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.expr.columns import Vector

from ..border import PageIndex, PageRows, Version
from ..key_hash import KeyHash
from .ages import ReadLog
from .described_table import PostgresTable, columns_of, difference
from .key_parameters import condition, parameters
from .server import ChangedTable, PostgresServer, TableSnapshot
from .server_columns import PostgresColumn


class PostgresVersion(Version):
    """A state of a table, begun when the first rows are read.

    Parameters
    ----------
    number : int
    table : PostgresTable
    server : PostgresServer
    key_hash : KeyHash
    log : ReadLog
        Learns which keys are read.
    pages : (PageIndex, PageIndex, ndarray of int64)
        Slices of the hashes; ranges of blocks, and the first block of each: the last has no end.
    changed : callable
        Called with an earlier version's number; returns the keys that grew too old since.
    """

    asks_keys = True
    keeps_state = False

    def __init__(
        self,
        number: int,
        table: PostgresTable,
        server: PostgresServer,
        key_hash: KeyHash,
        log: ReadLog,
        pages: tuple[PageIndex, PageIndex, np.ndarray],
        changed: Callable[[int, int], np.ndarray | None],
    ) -> None:
        self.number, self.rows, self.bytes = number, table.rows, table.rows * table.row_bytes
        self.created = time.time()
        self._table, self._server, self._key_hash, self._log = table, server, key_hash, log
        self.index, self._scanned, self._blocks = pages
        self._changed = changed
        # Without the lock, a table that is emptied or rewritten between the begin of the snapshot
        # and the first read would seem to be empty.
        lock = f"LOCK TABLE {table.name} IN ACCESS SHARE MODE"
        self.snapshot = TableSnapshot(server, *([lock] if table.can_lock else []))

    @property
    def scanned(self) -> PageIndex:
        return self._scanned

    @property
    def losses(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.snapshot.losses

    def settled(self) -> None:
        self.snapshot.end()

    def read_keys(
        self,
        pages: np.ndarray,
        columns: Sequence[str],
        key_hashes: np.ndarray,
        keys: Sequence[Vector],
    ) -> PageRows:
        table = self._table
        key = [table.columns[name] for name in table.key]
        params = parameters(key, keys, table.encoding) if len(key_hashes) else None
        wanted = list(dict.fromkeys([*columns, *table.key]))
        if params is None:
            rows_read = pa.schema([table.schema.field(one) for one in wanted]).empty_table()
        else:
            rows_read = self._read(wanted, condition(key), params=params)
        if len(key_hashes):
            # What is not there is known as of this moment, too.
            since = time.monotonic() if params is None else self.snapshot.since
            self._log.note(key_hashes, since)
        batch = _one_batch(rows_read)
        hashes = self._key_hash.of_rows(batch, table.key, self._server.location.name)
        # A collation may find more keys equal than they are here.
        place = np.minimum(np.searchsorted(key_hashes, hashes), max(0, len(key_hashes) - 1))
        rows = np.flatnonzero(key_hashes[place] == hashes) if len(key_hashes) else place[:0]
        page = np.argsort(np.argsort(pages))[
            np.searchsorted(np.sort(pages), self.index.page_of(hashes[rows]))
        ]
        order = rows[np.lexsort((hashes[rows], page))]
        starts = np.searchsorted(np.sort(page), np.arange(len(pages) + 1))
        return PageRows(hashes[order], batch.select(columns).take(pa.array(order)), starts)

    def read(
        self, pages: np.ndarray, columns: Sequence[str], key_hashes: np.ndarray | None = None
    ) -> PageRows:
        """Read ranges of blocks of :attr:`scanned`, as :meth:`Version.read`."""
        batch = _one_batch(self._read(columns, *self._ranges(pages)))
        # Which page a row came from matters to nobody where there is no order by hash.
        starts = np.full(len(pages) + 1, batch.num_rows)
        starts[0] = 0
        return PageRows(np.zeros(batch.num_rows, np.uint64), batch, starts)

    def _ranges(self, pages: np.ndarray) -> list[str]:
        """Conditions of runs of neighbouring pages."""
        if not len(self._blocks):
            return ["TRUE"]
        pages = np.sort(pages)
        cuts = np.flatnonzero(np.diff(pages) > 1) + 1
        conditions = []
        for low, high in pairwise([0, *cuts.tolist(), len(pages)]):
            first, last = int(pages[low]), int(pages[high - 1]) + 1
            text = f"ctid >= '({int(self._blocks[first])},0)'::tid"
            if last < len(self._blocks):
                text += f" AND ctid < '({int(self._blocks[last])},0)'::tid"
            conditions.append(text)
        return conditions

    def _read(
        self, columns: Sequence[str], *conditions: str, params: pa.RecordBatch | None = None
    ) -> pa.Table:
        """Read the rows that meet one of several disjoint conditions.

        Raises
        ------
        ServerError
        SchemaError
            A column has changed.
        DataError
            A value cannot be carried.
        """
        table = self._table
        chosen = [table.columns[name] for name in columns]
        checks = [one.checked for one in chosen if one.checked is not None]
        names = [f"{one.selected} AS c{n}" for n, one in enumerate(chosen)]
        names += [f"({' AND '.join(checks)}) AS fits"] if checks else []
        select = f"SELECT {', '.join(names)} FROM {table.name}"
        # One statement, so that all of it is of one state.
        sql = " UNION ALL ".join(f"{select} WHERE {one}" for one in conditions)
        try:
            return self._server_rows(sql, params, chosen)
        except ChangedTable as error:
            raise self._changed_table(str(error)) from None

    def _server_rows(
        self, sql: str, params: pa.RecordBatch | None, chosen: list[PostgresColumn]
    ) -> pa.Table:
        rows_read = self.snapshot.query(sql, params)
        where = self._server.location.name
        for field, one in zip(rows_read.schema, chosen, strict=False):
            now = PostgresColumn.described_by(field)
            if not one.is_cast and (now.kind, now.type) != (one.kind, one.type):
                raise ChangedTable(f"{one.name} was {one.kind} and is {now.kind}")
        if rows_read.num_columns > len(chosen) and not all(rows_read["fits"].to_pylist()):
            names = ", ".join(one.name for one in chosen if one.checked is not None)
            raise SchemaError(
                f"{where}: an array of {names} has several dimensions, which a list of Arrow has "
                "not; CAST it in a view"
            )
        arrays = [one.array(rows_read.column(n), where) for n, one in enumerate(chosen)]
        return pa.table(arrays, pa.schema([pa.field(one.name, one.type) for one in chosen]))

    def _changed_table(self, text: str) -> SchemaError:
        """The error for a table that changed since the relation was opened."""
        server, table = self._server, self._table
        self.snapshot.end()
        try:
            text = difference(table.columns, columns_of(server, table.name)) or text
        except SchemaError as error:
            text = str(error)
        return SchemaError(
            f"{server.location.name} has changed since it was opened: {text}; open it again "
            "(begin the query anew), or change it back"
        )

    def changed_since(self, number: int) -> np.ndarray | None:
        return self._changed(number, self.number)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
