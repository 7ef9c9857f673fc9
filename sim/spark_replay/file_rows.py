"""Rows of files by number; a task reads only the rows that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import FileError, SchemaError
from penstock.host.rows.files import read_schema, read_table
from penstock.host.rows.formats import parquet_group

#: Decoded pieces of files that a process keeps: the next micro-batch often reads the same one.
_CACHED = 4


@dataclass(frozen=True)
class FileChunk:
    """Rows that are read together: a row group of a Parquet file, or another file as a whole.

    Parameters
    ----------
    path : str
    changed_ns : int
        When the file was last changed.
    group : int or None
        Number of the row group.
    rows : int
    """

    path: str
    changed_ns: int
    group: int | None
    rows: int


@dataclass(frozen=True)
class RowFiles:
    """The rows of one file, or of a folder of Parquet files by name, in their order.

    Parameters
    ----------
    chunks : tuple of FileChunk
    schema : pyarrow.Schema
    """

    chunks: tuple[FileChunk, ...]
    schema: pa.Schema

    @staticmethod
    def at(path: str) -> RowFiles:
        """
        Raises
        ------
        FileError
            It is not there, or cannot be read.
        """
        where = Path(path)
        schema = read_schema(where)
        paths = [where]
        if where.is_dir():
            paths = [p for p in sorted(where.rglob("*.parquet")) if p.name[0] not in "._"]
            if not paths:
                raise FileError(f"there is no Parquet file in {where}")
        chunks = [chunk for one in paths for chunk in _chunks(one)]
        return RowFiles(tuple(chunks), schema)

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def read(self, first: int, last: int, columns: Sequence[str]) -> pa.Table:
        """Rows ``[first, last)``.

        Raises
        ------
        FileError, SchemaError
        """
        for name in columns:
            self.field(name)
        parts = [
            _decoded(chunk, tuple(columns)).slice(low, high - low)
            for chunk, low, high in self._within(first, last)
        ]
        if not parts:
            return pa.schema([self.field(name) for name in columns]).empty_table()
        return pa.concat_tables(parts)

    def field(self, name: str) -> pa.Field:
        """
        Raises
        ------
        SchemaError
            There is no such column.
        """
        if name not in self.schema.names:
            raise SchemaError(
                f"{self.chunks[0].path} has no column {name}; it has {', '.join(self.schema.names)}"
            )
        return self.schema.field(name)

    def _within(self, first: int, last: int) -> Iterator[tuple[FileChunk, int, int]]:
        begin = 0
        for chunk in self.chunks:
            low, high = max(first - begin, 0), min(last - begin, chunk.rows)
            if low < high:
                yield chunk, low, high
            begin += chunk.rows


def _chunks(path: Path) -> list[FileChunk]:
    changed = path.stat().st_mtime_ns
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            metadata = pq.read_metadata(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise FileError(f"cannot read {path}: {error}") from error
        counts = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        return [FileChunk(str(path), changed, k, count) for k, count in enumerate(counts)]
    return [FileChunk(str(path), changed, None, read_table(path).num_rows)]


@lru_cache(maxsize=_CACHED)
def _decoded(chunk: FileChunk, columns: tuple[str, ...]) -> pa.Table:
    if chunk.group is None:
        return read_table(chunk.path, columns)
    try:
        return parquet_group(chunk.path, chunk.group, columns)
    except (OSError, pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise FileError(f"cannot read {chunk.path}: {error}") from error
