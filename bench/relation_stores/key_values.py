"""LMDB and RocksDB as stores of relations: rows are values of fixed length, packed by NumPy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from bench.relation_stores.rows import NAME_CHARS, letters_of, texts
from bench.relation_stores.stores import RelationStore
from bench.relation_stores.zorder import codes, intervals

Pair = tuple[bytes, bytes]

#: Rows that are written, or read, together.
_CHUNK = 1 << 16
_ROW = np.dtype([("plan", "<i8"), ("x", "<i4"), ("y", "<i4"), ("name", "u1", NAME_CHARS)])
#: Most bytes of the file that LMDB maps.
_MAP_BYTES = 1 << 34


def _keys(ids: np.ndarray) -> list[bytes]:
    """Ids in an order of bytes that is theirs."""
    return ids.astype(">u8").view("V8").tolist()


class _KeyValues(RelationStore):
    @abstractmethod
    def _write(self, pairs: list[Pair], gone: list[bytes]) -> None:
        """Put and remove pairs at once."""

    @abstractmethod
    def _finish(self) -> None:
        """What a build ends with."""

    @abstractmethod
    def _get(self, keys: list[bytes]) -> Iterable[Pair]:
        """The pairs of some keys, without those that are not there."""

    @abstractmethod
    def pairs_from(self, key: bytes) -> Iterator[Pair]:
        """All pairs from a key on."""

    def _pairs(self, rows: pa.RecordBatch) -> list[Pair]:
        packed = np.zeros(rows.num_rows, _ROW)
        for column in ("plan", "x", "y"):
            packed[column] = rows.column(column).to_numpy()
        packed["name"] = letters_of(rows.column("name"))
        keys = _keys(rows.column("id").to_numpy())
        if self.by_place:
            places = _keys(codes(packed["x"], packed["y"]))
            keys = [place + key for place, key in zip(places, keys, strict=True)]
        values = packed.view(f"V{_ROW.itemsize}").tolist()
        return list(zip(keys, values, strict=True))

    def build(self, rows: pa.RecordBatchReader) -> None:
        for batch in rows:
            self._write(sorted(self._pairs(batch)), [])
        self._finish()

    def get(self, keys: np.ndarray) -> pa.Table:
        return pa.Table.from_batches([_rows(self._get(_keys(np.sort(keys))))])

    def scan(self) -> Iterator[pa.RecordBatch]:
        pairs = self.pairs_from(b"\0")
        while some := list(islice(pairs, _CHUNK)):
            yield _rows(some)

    def update(self, upserts: pa.Table, gone: np.ndarray) -> None:
        pairs = [pair for batch in upserts.to_batches() for pair in self._pairs(batch)]
        self._write(sorted(pairs), _keys(np.sort(gone)))

    def within(self, box: np.ndarray) -> np.ndarray:
        keys: list[bytes] = []
        values: list[bytes] = []
        for low, high in intervals(box):
            end = high.to_bytes(8, "big")
            for key, value in self.pairs_from(low.to_bytes(8, "big")):
                if key >= end:
                    break
                keys.append(key[8:])
                values.append(value)
        packed = np.frombuffer(b"".join(values), _ROW)
        x, y = packed["x"], packed["y"]
        found = (x >= box[0]) & (x <= box[1]) & (y >= box[2]) & (y <= box[3])
        return np.frombuffer(b"".join(keys), ">u8").astype(np.int64)[found]


def _rows(pairs: Iterable[Pair]) -> pa.RecordBatch:
    pairs = list(pairs)
    ids = np.frombuffer(b"".join([key for key, _ in pairs]), ">u8").astype(np.int64)
    packed = np.frombuffer(b"".join([value for _, value in pairs]), _ROW)
    plans = np.ascontiguousarray(packed["plan"])
    return pa.record_batch(
        {"id": ids, "plan": plans, "name": texts(np.ascontiguousarray(packed["name"]))}
    )


class Lmdb(_KeyValues):
    """A B+-tree in a mapped file."""

    name = "LMDB"

    @cached_property
    def _store(self) -> Any:
        import lmdb

        return lmdb.open(str(self.path), map_size=_MAP_BYTES, sync=False)

    def _write(self, pairs: list[Pair], gone: list[bytes]) -> None:
        with self._store.begin(write=True) as writing:
            writing.cursor().putmulti(pairs)
            for key in gone:
                writing.delete(key)
        if gone:
            self._store.sync(True)

    def _finish(self) -> None:
        self._store.sync(True)

    def _get(self, keys: list[bytes]) -> Iterable[Pair]:
        with self._store.begin() as reading:
            return reading.cursor().getmulti(keys)

    def pairs_from(self, key: bytes) -> Iterator[Pair]:
        with self._store.begin() as reading:
            cursor = reading.cursor()
            if cursor.set_range(key):
                yield from cursor.iternext()

    def close(self) -> None:
        self._store.close()


class Rocks(_KeyValues):
    """A tree of sorted files."""

    name = "RocksDB"
    #: Whether it is opened beside a process that writes.
    reads_only = False

    @cached_property
    def _store(self) -> Any:
        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        # Half of the memory for what is written, half for blocks.
        options.set_write_buffer_size(self.memory_bytes // 4)
        tables = rocksdict.BlockBasedOptions()
        tables.set_block_cache(rocksdict.Cache(self.memory_bytes // 2))
        tables.set_bloom_filter(10, False)
        options.set_block_based_table_factory(tables)
        if self.reads_only:
            access = rocksdict.AccessType.read_only()
            return rocksdict.Rdict(str(self.path), options, access_type=access)
        return rocksdict.Rdict(str(self.path), options)

    def _write(self, pairs: list[Pair], gone: list[bytes]) -> None:
        import rocksdict

        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        for key in gone:
            batch.delete(key)
        self._store.write(batch)
        if gone:
            self._store.flush()

    def _finish(self) -> None:
        self._store.flush()
        self._store.compact_range(None, None)

    def _get(self, keys: list[bytes]) -> Iterable[Pair]:
        values = self._store.get(keys)
        return [(k, v) for k, v in zip(keys, values, strict=True) if v is not None]

    def pairs_from(self, key: bytes) -> Iterator[Pair]:
        return self._store.items(from_key=key)

    def close(self) -> None:
        self._store.close()
