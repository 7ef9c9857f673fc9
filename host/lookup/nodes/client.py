"""Client of lookup nodes: a relation whose rows come from its nodes instead of its pages."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from os import PathLike, fspath

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError

from ...relation import open_folder
from ...relation.border import PageIndex, PageRows, Relation, Version
from ...relation.folder.folder_relation import FolderRelation
from ...relation.folder.reading import file_store
from ...relation.folder.version import FolderVersion
from ...relation.slices import slices_of_hashes
from ...store.file_store import FileStore
from ...wire.address import Address
from .entrances import AskCounts, Entrances
from .known_ring import KnownRing
from .messages import MOST_KEYS, KeyRequest, KeyRows
from .peers import Caller, Patience
from .ring import Node, Ring

#: Keys, ascending, and their rows; None where no node answers.
Part = tuple[np.ndarray, KeyRows | None]


class NodesVersion(Version):
    """A version whose rows come from nodes, by the hashes of their keys.

    Slices of the hashes stand for its pages; the folder's pages without an order by hash come
    after them. Reads without hashes go to the folder.

    Parameters
    ----------
    folder : FolderVersion
    ask : callable
        Called with version, columns and hashes; returns the hashes in parts, with their rows.
    """

    def __init__(
        self,
        folder: FolderVersion,
        ask: Callable[[int, Sequence[str], np.ndarray], list[Part]],
    ) -> None:
        self._folder, self._ask = folder, ask
        self.number, self.rows = folder.number, folder.rows
        self.bytes, self.created = folder.bytes, folder.created
        self.index = self._index_of()

    def _index_of(self) -> PageIndex:
        slices = slices_of_hashes(self.rows, self.bytes)
        index = self._folder.index
        plain = slice(len(index.first), None)
        return PageIndex(
            slices.first,
            np.concatenate([slices.rows, index.rows[plain]]),
            np.concatenate([slices.bytes, index.bytes[plain]]),
            {},
            slices.memory_bytes + index.memory_bytes,
        )

    def changed_since(self, number: int) -> np.ndarray | None:
        return self._folder.changed_since(number)

    def read(
        self, pages: np.ndarray, columns: Sequence[str], key_hashes: np.ndarray | None = None
    ) -> PageRows:
        pages = np.asarray(pages, np.int64)
        keyed = len(self.index.first)
        if key_hashes is None or (pages >= keyed).any():
            parts = [self._read_whole(page, columns) for page in pages.tolist()]
            if not parts:
                return self._folder.read(pages, columns)
            hashes = np.concatenate([part.hashes for part in parts])
            batch = pa.concat_batches([part.batch for part in parts])
            counts = [len(part.hashes) for part in parts]
            return PageRows(hashes, batch, np.concatenate([[0], np.cumsum(counts)]))
        hashes, batch = self._rows_of(columns, key_hashes)
        places = np.argsort(pages)
        of_row = places[np.searchsorted(pages[places], self.index.page_of(hashes))]
        starts = np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=len(pages)))])
        if (np.diff(of_row) < 0).any():  # pages were not in order
            order = np.argsort(of_row, kind="stable")
            hashes, batch = hashes[order], batch.take(pa.array(order))
        return PageRows(hashes, batch, starts)

    def _rows_of(
        self, columns: Sequence[str], key_hashes: np.ndarray
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """The rows of some keys, ascending by hash."""
        hashes, batches = [], []
        for low in range(0, max(1, len(key_hashes)), MOST_KEYS):
            some = key_hashes[low : low + MOST_KEYS]
            for keys, rows in self._ask(self.number, columns, some) if len(some) else ():
                if rows is None:
                    alone, batch = self.read_in_folder(columns, keys)
                else:
                    alone, batch = np.repeat(rows.hashes, rows.counts), rows.batch
                hashes.append(alone)
                batches.append(batch)
        if not batches:
            none = self._folder.read(np.zeros(0, np.int64), columns)
            return none.hashes, none.batch
        return np.concatenate(hashes), pa.concat_batches(batches)

    def read_in_folder(
        self, columns: Sequence[str], key_hashes: np.ndarray
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """The rows of some keys, ascending by hash, without any node."""
        pages = np.unique(self._folder.index.page_of(key_hashes))
        rows = self._folder.read(pages, columns, key_hashes)
        return _only(rows.hashes, rows.batch, np.isin(rows.hashes, key_hashes))

    def _read_whole(self, page: int, columns: Sequence[str]) -> PageRows:
        """All rows of a slice, or a page without an order by hash."""
        first, index = self.index.first, self._folder.index
        if page >= len(first):
            return self._folder.read(np.array([page - len(first) + len(index.first)]), columns)
        low = first[page]
        is_last = page + 1 == len(first)
        high = np.uint64((1 << 64) - 1) if is_last else first[page + 1] - np.uint64(1)
        ends = index.page_of(np.array([low, high]))
        rows = self._folder.read(np.arange(ends[0], ends[1] + 1), columns)
        inside = (rows.hashes >= low) & (rows.hashes <= high)
        hashes, batch = _only(rows.hashes, rows.batch, inside)
        return PageRows(hashes, batch, np.array([0, len(hashes)]))


def _only(
    hashes: np.ndarray, batch: pa.RecordBatch, wanted: np.ndarray
) -> tuple[np.ndarray, pa.RecordBatch]:
    if wanted.all():
        return hashes, batch
    return hashes[wanted], batch.filter(pa.array(wanted))


class NodesRelation(Relation):
    """A relation in a folder, whose nodes are asked for the rows of keys.

    Parameters
    ----------
    folder : FolderRelation
        Gives versions, and rows where no node answers; closed with this.
    files : FileStore
        Files of the folder.
    at : sequence of str, optional
        Addresses of nodes; by default those of the ring that the folder has a record of.
    token : str, optional
        The nodes' token.
    patience : Patience, optional

    Raises
    ------
    UsageError
        The relation has no nodes, or is clustered.
    FileError
    """

    def __init__(
        self,
        folder: FolderRelation,
        files: FileStore,
        *,
        at: Sequence[str] = (),
        token: str | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.folder = folder
        self.name, self.id, self.schema = folder.name, folder.id, folder.schema
        self.key, self.cluster, self.unique = folder.key, folder.cluster, folder.unique
        self.key_hash = folder.key_hash
        if not folder.found_by:
            raise UsageError(
                f"{self.name} is clustered, so no row of it is looked up by its key; nodes are for "
                "relations that are built with --key alone"
            )
        self._ring = _Fixed(at) if at else KnownRing(files)
        if self._ring.ring() is None:
            raise UsageError(
                f"{self.name} has no nodes; start some with `penstock serve --relation`, and name "
                "them with `penstock relation nodes add`"
            )
        caller = Caller(
            f"process {os.getpid()} on {socket.gethostname()}",
            self.id,
            self.name,
            self.schema,
            token=token,
            patience=patience or Patience(),
        )
        self._entrances = Entrances(caller, self._ring.ring)

    @property
    def ask_counts(self) -> AskCounts:
        """Counts of requests to nodes."""
        return self._entrances.counts

    def newest(self) -> int:
        return self.folder.newest()

    def version(self, number: int | None = None) -> NodesVersion:
        return NodesVersion(self.folder.version(number), self._ask)

    def _ask(self, number: int, columns: Sequence[str], hashes: np.ndarray) -> list[Part]:
        request = KeyRequest(number, self._ring.number, tuple(columns), hashes)
        return self._entrances.ask(request)

    def close(self) -> None:
        self._entrances.close()
        self.folder.close()


def open_nodes(
    location: str | PathLike,
    at: Sequence[str] = (),
    *,
    token: str | None = None,
    patience: Patience | None = None,
) -> NodesRelation:
    """Open a relation whose rows its nodes are asked for.

    Parameters
    ----------
    location : str or path
        As for :func:`~penstock.host.relation.open_relation`.
    at : sequence of str, optional
        Addresses of nodes; by default those that the relation has a record of.
    token : str, optional
        The nodes' token.
    patience : Patience, optional

    Raises
    ------
    FileError
        There is no relation, or it is damaged.
    UsageError
        The relation has no nodes, or is clustered.
    """
    folder = open_folder(location, "has no nodes")
    files = file_store(fspath(location))
    try:
        return NodesRelation(folder, files, at=at, token=token, patience=patience)
    except BaseException:
        folder.close()
        raise


class _Fixed:
    """Nodes at given addresses, in place of a ring."""

    number = 0

    def __init__(self, at: Sequence[str]) -> None:
        for one in at:
            Address.parsed(one)
        self._ring = Ring(0, [Node(f"node-{k}", one) for k, one in enumerate(at)])

    def ring(self, known: int = 0) -> Ring | None:
        return self._ring
