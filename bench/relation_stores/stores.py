"""What a relation is asked of, by the folder of pages and by Lance."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.relation_stores.zorder import codes
from penstock.host.relation import FolderRelation, RelationOptions, build, open_relation

#: What a lookup gives.
COLUMNS = ("id", "plan", "name")
#: Bytes of a page of the folder: as in bench.lookup; those of clustered rows are longer.
_PAGE_BYTES = 4 << 10
_CLUSTERED_BYTES = 16 << 10
#: Times that Lance's new rows are indexed again after another process was faster.
_TRIES = 10


class RelationStore(ABC):
    """Somebody who stores a relation.

    Parameters
    ----------
    path : Path
        Of its files.
    memory_bytes : int
        For building and for caches, where that can be said.
    by_place : bool
        Whether rows are found by their coordinates, not by id.
    """

    name: str

    def __init__(self, path: Path, memory_bytes: int, *, by_place: bool = False) -> None:
        self.path, self.memory_bytes, self.by_place = path, memory_bytes, by_place

    @abstractmethod
    def build(self, rows: pa.RecordBatchReader) -> None:
        """Store all rows, which come in no order."""

    @abstractmethod
    def get(self, keys: np.ndarray) -> pa.Table:
        """The rows of some ids, in any order: :data:`COLUMNS`."""

    @abstractmethod
    def scan(self) -> Iterator[pa.RecordBatch]:
        """All rows: :data:`COLUMNS`."""

    @abstractmethod
    def update(self, upserts: pa.Table, gone: np.ndarray) -> None:
        """Replace the rows of some ids, and remove those of others."""

    @abstractmethod
    def within(self, box: np.ndarray) -> np.ndarray:
        """Ids of the rows in a box, its bounds included, in any order."""

    @abstractmethod
    def close(self) -> None: ...


class Folder(RelationStore):
    """Penstock's pages in a folder."""

    name = "folder"

    @cached_property
    def _relation(self) -> FolderRelation:
        return open_relation(self.path)

    @cached_property
    def _version(self):
        return self._relation.version()

    @cached_property
    def _lacks(self):
        """What tells that a hash is no row's, kept in memory."""
        return self._version.filters()

    def build(self, rows: pa.RecordBatchReader) -> None:
        options = RelationOptions(
            key=("id",),
            cluster=("x", "y") if self.by_place else (),
            page_bytes=_CLUSTERED_BYTES if self.by_place else _PAGE_BYTES,
        )
        build(rows, str(self.path), options, memory_bytes=self.memory_bytes).close()

    def get(self, keys: np.ndarray) -> pa.Table:
        version = self._version
        hashes = np.sort(
            self._relation.key_hash.of_rows(pa.table({"id": keys}), ["id"], "the keys")
        )
        if self._lacks is not None:
            hashes = hashes[~self._lacks(hashes)]
        pages = np.unique(version.index.page_of(hashes))
        rows = version.read(pages, COLUMNS, hashes)
        ids = rows.batch.column("id").to_numpy()
        return pa.Table.from_batches([rows.batch]).filter(np.isin(ids, keys))

    def scan(self) -> Iterator[pa.RecordBatch]:
        return (rows.batch for rows in self._version.batches(COLUMNS))

    def update(self, upserts: pa.Table, gone: np.ndarray) -> None:
        deletes = pa.table({"id": gone})
        self._relation.update(upserts, deletes, memory_bytes=self.memory_bytes, compact=False)
        for kept in ("_version", "_lacks"):
            self.__dict__.pop(kept, None)

    def within(self, box: np.ndarray) -> np.ndarray:
        bounds = self._version.index.bounds
        near = np.ones(len(self._version.index), bool)
        for column, low, high in (("x", *box[:2]), ("y", *box[2:])):
            least, greatest = bounds[column]
            near &= (least <= high) & (greatest >= low)
        rows = self._version.read(np.flatnonzero(near), ("id", "x", "y")).batch
        return _inside(rows, box)

    def close(self) -> None:
        self._relation.close()


class Lance(RelationStore):
    """A Lance dataset with a B-tree of the ids, or zone maps of coordinates in Z-order."""

    name = "Lance"

    @cached_property
    def _lance(self) -> Any:
        os.environ["LANCE_MEM_POOL_SIZE"] = str(self.memory_bytes)
        import lance

        return lance

    @cached_property
    def _dataset(self) -> Any:
        half = self.memory_bytes // 2
        return self._lance.dataset(
            str(self.path), index_cache_size_bytes=half, metadata_cache_size_bytes=half
        )

    def build(self, rows: pa.RecordBatchReader) -> None:
        if not self.by_place:
            self._lance.write_dataset(rows, str(self.path))
            self._dataset.create_scalar_index("id", "BTREE")
            return
        # Lance clusters nothing: it gets the rows in their order.
        table = rows.read_all()
        order = np.argsort(codes(table["x"].to_numpy(), table["y"].to_numpy()), kind="stable")
        self._lance.write_dataset(table.take(order), str(self.path))
        for column in ("x", "y"):
            self._dataset.create_scalar_index(column, "ZONEMAP")

    def get(self, keys: np.ndarray) -> pa.Table:
        wanted = f"id IN ({','.join(map(str, keys.tolist()))})"
        return self._dataset.to_table(columns=list(COLUMNS), filter=wanted)

    def scan(self) -> Iterator[pa.RecordBatch]:
        buffer = self.memory_bytes // 4
        return iter(
            self._dataset.to_batches(
                columns=list(COLUMNS), batch_readahead=2, io_buffer_size=buffer
            )
        )

    def update(self, upserts: pa.Table, gone: np.ndarray) -> None:
        merge = self._dataset.merge_insert("id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(upserts)
        if len(gone):
            self._dataset.delete(f"id IN ({','.join(map(str, gone.tolist()))})")
        # Without this each lookup reads all new rows. Of two that index at once one is refused.
        for _ in range(_TRIES):
            try:
                self._dataset.optimize.optimize_indices()
                return
            except (OSError, RuntimeError) as error:
                if "Retryable" not in str(error):
                    raise
                self._dataset.checkout_latest()
        raise TimeoutError(f"{self.path}: no index after {_TRIES} tries")

    def within(self, box: np.ndarray) -> np.ndarray:
        low_x, high_x, low_y, high_y = box.tolist()
        wanted = f"x >= {low_x} AND x <= {high_x} AND y >= {low_y} AND y <= {high_y}"
        return self._dataset.to_table(columns=["id"], filter=wanted)["id"].to_numpy()

    def close(self) -> None:
        self.__dict__.pop("_dataset", None)


def _inside(rows: pa.RecordBatch, box: np.ndarray) -> np.ndarray:
    x, y = (rows.column(name).to_numpy() for name in ("x", "y"))
    found = (x >= box[0]) & (x <= box[1]) & (y >= box[2]) & (y <= box[3])
    return rows.column("id").to_numpy()[found]


def bytes_of(path: Path) -> int:
    """Of all files below a path, as they lie on the disk."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_blocks * 512 for file in files)
