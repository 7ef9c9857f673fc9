"""Ways to answer batches of calls with rows of subscribers."""

from __future__ import annotations

import os
import shutil
import struct
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.lookup.scale import Data
from penstock.sim.workloads.call_records import NAME_CHARS

#: Bytes of a Python dictionary's entry with its key and a value of 72 bytes, as sizes say.
_ENTRY_BYTES = 280
_VALUE_BYTES = 8 + NAME_CHARS
#: Bytes of a cache that RocksDB has for its blocks, of the memory that its join may use.
_BLOCKS_SHARE = 0.25
_PUT = 1 << 16


class Contender(ABC):
    """Somebody who answers calls.

    Parameters
    ----------
    data : Data
    memory_bytes : int
        For what it keeps.
    """

    def __init__(self, data: Data, memory_bytes: int) -> None:
        self.data, self.memory_bytes = data, memory_bytes

    def answer(self, batches: Sequence[pa.RecordBatch]) -> list[pa.Table]:
        """Join batches of calls: columns id, plan and name."""
        found = []
        for batch in batches:
            found.append(self._one(batch))
            if self.data.cold:
                self._cool()
        return found

    @abstractmethod
    def _one(self, batch: pa.RecordBatch) -> pa.Table:
        """Join a batch; its rows may be in the answer of a later one."""

    @property
    @abstractmethod
    def _path(self) -> Path:
        """The file, or the folder of files, that it reads."""

    def _cool(self) -> None:
        """Let the operating system forget what it has of the files; not what is mapped."""
        for path in self._path.rglob("*") if self._path.is_dir() else [self._path]:
            if path.is_file():
                descriptor = os.open(path, os.O_RDONLY)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""


class Penstock(Contender):
    """Our join.

    Parameters
    ----------
    algorithm : str
    each : bool
        Whether each batch is answered before the next one comes.
    """

    def __init__(
        self, data: Data, memory_bytes: int, algorithm: str = "auto", *, each: bool = True
    ) -> None:
        super().__init__(data, memory_bytes)
        self.algorithm, self._each = algorithm, each

    @cached_property
    def stream(self):
        """The running join."""
        return self.data.stream(self.algorithm, self.memory_bytes)

    @property
    def _path(self) -> Path:
        return self.data.relation

    def answer(self, batches: Sequence[pa.RecordBatch]) -> list[pa.Table]:
        found = super().answer(batches)
        if not self._each:
            self.stream.flush()
            found.append(self.stream.poll())
        return found

    def _one(self, batch: pa.RecordBatch) -> pa.Table:
        self.stream.push("calls", batch)
        if self._each:
            self.stream.flush()
        return self.stream.poll()

    def close(self) -> None:
        self.stream.close()


class _Cached(Contender):
    """A store of keys and values behind an LRU, as one writes it by hand."""

    def __init__(self, data: Data, memory_bytes: int) -> None:
        super().__init__(data, memory_bytes)
        self._cache: OrderedDict[int, bytes] = OrderedDict()

    @property
    def _entries(self) -> int:
        return self.memory_bytes // _ENTRY_BYTES

    @abstractmethod
    def _get(self, keys: list[int]) -> dict[int, bytes]:
        """The values of some keys, without those that are not there."""

    def _pairs(self) -> Iterator[tuple[bytes, bytes]]:
        for batch in self.data.subscribers():
            ids, plans = (batch.column(name).to_pylist() for name in ("id", "plan"))
            for key, plan, name in zip(ids, plans, batch.column("name").to_pylist(), strict=True):
                yield struct.pack(">q", key), struct.pack("<q", plan) + name.encode()

    def _one(self, batch: pa.RecordBatch) -> pa.Table:
        cache, limit = self._cache, self._entries
        keys = batch.column("subscriber").to_pylist()
        values: list[bytes | None] = []
        missed: list[int] = []
        for key in keys:
            value = cache.get(key)
            if value is None:
                missed.append(key)
            else:
                cache.move_to_end(key)
            values.append(value)
        found = self._get(sorted({key for key in missed if key >= 0}))
        cache.update(found)
        for _ in range(len(cache) - limit):
            cache.popitem(last=False)
        if missed:
            values = [
                found.get(key) if value is None else value
                for key, value in zip(keys, values, strict=True)
            ]
        ids = batch.column("id").to_numpy()
        if None in values:
            ids = ids[[value is not None for value in values]]
            values = [value for value in values if value is not None]
        raw = np.frombuffer(b"".join(values), np.uint8).reshape(-1, _VALUE_BYTES)
        plans = np.ascontiguousarray(raw[:, :8]).view(np.int64).ravel()
        names = np.ascontiguousarray(raw[:, 8:])
        offsets = np.arange(len(raw) + 1, dtype=np.int32) * NAME_CHARS
        text = [None, pa.py_buffer(offsets), pa.py_buffer(names.reshape(-1))]
        name = pa.Array.from_buffers(pa.string(), len(raw), text)
        return pa.table({"id": ids, "plan": plans, "name": name})


class Lmdb(_Cached):
    """LRU and LMDB."""

    @property
    def _path(self) -> Path:
        return self.data.folder / f"subscribers-{self.data.rows}.lmdb"

    @cached_property
    def _store(self):
        import lmdb

        path = self._path
        if not path.exists():
            made = path.with_suffix(".part")
            shutil.rmtree(made, ignore_errors=True)
            with lmdb.open(str(made), map_size=self.data.rows * 400, sync=False) as store:
                pairs = self._pairs()
                while some := list(islice(pairs, _PUT)):
                    with store.begin(write=True) as writing:
                        writing.cursor().putmulti(some, append=True)
                store.sync(True)
            made.rename(path)
        return lmdb.open(str(path), readonly=True, lock=False, map_size=self.data.rows * 400)

    def _get(self, keys: list[int]) -> dict[int, bytes]:
        names = [struct.pack(">q", key) for key in keys]
        with self._store.begin() as reading:
            pairs = reading.cursor().getmulti(names)
        return {int.from_bytes(key, "big"): value for key, value in pairs}

    def close(self) -> None:
        self._store.close()


class Rocks(_Cached):
    """LRU and RocksDB."""

    @property
    def _path(self) -> Path:
        return self.data.folder / f"subscribers-{self.data.rows}.rocks"

    @property
    def _entries(self) -> int:
        return int(self.memory_bytes * (1 - _BLOCKS_SHARE)) // _ENTRY_BYTES

    @cached_property
    def _store(self):
        import rocksdict

        path = self._path
        if not path.exists():
            made = path.with_suffix(".part")
            shutil.rmtree(made, ignore_errors=True)
            store = rocksdict.Rdict(str(made), self._options())
            pairs = self._pairs()
            while some := list(islice(pairs, _PUT)):
                batch = rocksdict.WriteBatch(raw_mode=True)
                for key, value in some:
                    batch.put(key, value)
                store.write(batch)
            store.compact_range(None, None)
            store.close()
            made.rename(path)
        access = rocksdict.AccessType.read_only()
        return rocksdict.Rdict(str(path), self._options(), access_type=access)

    def _options(self):
        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        tables = rocksdict.BlockBasedOptions()
        tables.set_block_cache(rocksdict.Cache(int(self.memory_bytes * _BLOCKS_SHARE)))
        tables.set_bloom_filter(10, False)
        options.set_block_based_table_factory(tables)
        return options

    def _get(self, keys: list[int]) -> dict[int, bytes]:
        values = self._store.get([struct.pack(">q", key) for key in keys]) if keys else []
        return {k: v for k, v in zip(keys, values, strict=True) if v is not None}

    def close(self) -> None:
        self._store.close()


class Duckdb(Contender):
    """A table of DuckDB on disk, with a limit on its memory."""

    @property
    def _path(self) -> Path:
        return self.data.folder / f"subscribers-{self.data.rows}.duckdb"

    @cached_property
    def _connection(self):
        import duckdb

        path = self._path
        if not path.exists():
            made = Path(f"{path}.part")
            made.unlink(missing_ok=True)
            with duckdb.connect(str(made)) as making:
                making.execute("CREATE TABLE subscribers(id BIGINT, plan BIGINT, name VARCHAR)")
                for batch in self.data.subscribers():
                    rows = pa.Table.from_batches([batch])
                    making.register("rows", rows)
                    making.execute("INSERT INTO subscribers SELECT id, plan, name FROM rows")
                    making.unregister("rows")
            made.rename(path)
        config = {"memory_limit": f"{self.memory_bytes / 1e6:.0f}MB", "threads": 2}
        return duckdb.connect(str(path), read_only=True, config=config)

    def _one(self, batch: pa.RecordBatch) -> pa.Table:
        self._connection.register("calls", pa.Table.from_batches([batch]))
        asked = self._connection.sql(
            "SELECT c.id, s.plan, s.name FROM calls c JOIN subscribers s ON c.subscriber = s.id"
        )
        found = asked.to_arrow_table()
        self._connection.unregister("calls")
        return found

    def close(self) -> None:
        self._connection.close()
