"""A folder of batches: rows that tasks wrote, and one record per batch, which is its commit.

``rows/<writer>/<batch>/`` has Parquet files; :mod:`.records` say which of them count;
``writers/<writer>.json`` says which query has a name of a writer that a user chose. A record is
written under another name and then gets its final one, if that is free. So a batch is there as a
whole or not at all, is written once, and never changes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import DataError, FileError, SchemaError, UsageError
from penstock.host.rows.location import local_path
from penstock.host.rows.own_names import UUID, OwnNames

from .records import BatchFile, Records, new_file, put, readable

_ROWS, _COMMITS, _WRITERS, _SCHEMA = "rows", "commits", "writers", "schema.json"
#: Names of the files of a batch.
_PARTS = OwnNames(rf"(?:[0-9]{{5}}|[1-9][0-9]{{5,}})-{UUID}\.parquet")


@dataclass(frozen=True)
class Ledger:
    """The folder; one and the same on the driver and on all workers.

    Parameters
    ----------
    folder : str
    """

    folder: str

    @classmethod
    def at(cls, path: str) -> Ledger:
        """Take a path, or a ``file:`` URI.

        Raises
        ------
        UsageError
            It is another URI, or a path that each process would begin in a folder of its own.
        """
        folder = local_path(path, "penstock_batches takes one that driver and workers share")
        if not folder.is_absolute():
            raise UsageError(
                f"penstock_batches cannot take {path}, since driver and workers have working "
                "folders of their own: give the whole path of a folder that they share"
            )
        return cls(str(folder))

    # -- schema -----------------------------------------------------------------------------------

    def schema(self) -> str:
        """Spark's schema of all batches, as JSON.

        Raises
        ------
        FileError
            Nothing has been written yet.
        """
        try:
            return Path(self.folder, _SCHEMA).read_text(encoding="utf-8")
        except OSError as error:
            raise FileError(
                f"there are no batches in {self.folder} ({error.strerror}); start what writes "
                'them, or give their columns with schema("...")'
            ) from error

    def take_schema(self, schema: str) -> None:
        """Check that the batches have this schema, or make it theirs if there is none yet.

        Raises
        ------
        SchemaError
            Its batches have other columns.
        FileError
        """
        path = Path(self.folder, _SCHEMA)
        if not path.exists():
            put(path, schema)
        found, given = _columns(self.schema()), _columns(schema)
        if found != given:
            raise SchemaError(
                f"the batches in {self.folder} have columns {_told(found)}, and these rows have "
                f"{_told(given)}; write the same columns, or choose another path"
            )

    # -- writing ----------------------------------------------------------------------------------

    def write(
        self, writer: str, batch: int, part: int, batches: Iterable[pa.RecordBatch]
    ) -> list[BatchFile]:
        """Write rows of a batch; nobody sees them before :meth:`commit`.

        Raises
        ------
        FileError
        """
        rows = iter(batches)
        first = next((one for one in rows if one.num_rows), None)
        if first is None:
            return []
        folder = Path(_ROWS, writer, str(batch))
        path = self.folder / folder / f"{part:05}-{uuid.uuid4().hex}.parquet"
        count = 0
        with (
            new_file(path) as partial,
            pq.ParquetWriter(partial, first.schema, compression="zstd", compression_level=1) as out,
        ):
            for one in (first, *rows):
                out.write_batch(one)
                count += one.num_rows
        return [BatchFile(str(folder / path.name), count, path.stat().st_size)]

    def take_writer(self, writer: str, query: str) -> None:
        """Check that a writer's name is a query's, or make it the query's.

        Parameters
        ----------
        writer : str
        query : str
            Number of the query.

        Raises
        ------
        UsageError
            It is another query's: batches of this one would be taken for repeated ones.
        FileError
        """
        path = Path(self.folder, _WRITERS, f"{writer}.json")
        if not path.exists():
            put(path, json.dumps({"query": query}))
        with readable(path):
            found = json.loads(path.read_bytes())["query"]
        if found != query:
            raise UsageError(
                f"writer {writer} of {self.folder} is another query, or this one with another "
                "checkpoint, whose batches have the same numbers; give another name as option "
                "writer, or another path"
            )

    def commit(self, writer: str, batch: int, files: Sequence[BatchFile]) -> bool:
        """Make a batch visible; False if it was, and then it is unchanged.

        Raises
        ------
        DataError
            There is a later batch of the writer: readers of the stream would miss this one.
        FileError
        """
        records = self.records(writer)
        latest = records.latest()
        if latest is not None and batch <= latest:
            if not records.is_there(batch):
                raise DataError(
                    f"batch {batch} of {writer} comes after batch {latest} in {self.folder}; "
                    "numbers must rise. A query on an old copy of its checkpoint needs another "
                    "path, or the option writer"
                )
            is_new = False
        else:
            is_new = records.put(batch, files)
            records.fold()
        for number in (batch - 1, batch):
            self._sweep(writer, number)
        return is_new

    def discard(self, files: Iterable[BatchFile]) -> None:
        """Remove the files of a batch that is given up."""
        for file in files:
            Path(self.folder, file.name).unlink(missing_ok=True)

    def _sweep(self, writer: str, batch: int) -> None:
        """Remove files of a committed batch that failed or repeated tasks have left."""
        folder = Path(self.folder, _ROWS, writer, str(batch))
        found = self.records(writer).between(batch - 1, batch)
        if not (folder.is_dir() and batch in found):
            return
        named = {Path(file.name).name for file in found[batch]}
        for path in list(folder.iterdir()):
            if path.name in _PARTS and path.name not in named and path.is_file():
                path.unlink(missing_ok=True)

    # -- reading ----------------------------------------------------------------------------------

    def writers(self) -> list[str]:
        """Names of the writers that have committed batches."""
        folder = Path(self.folder, _COMMITS)
        there = folder.iterdir() if folder.is_dir() else ()
        return sorted(p.name for p in there if _is_writer(p.name) and p.is_dir())

    def records(self, writer: str) -> Records:
        """What a writer has committed."""
        return Records(self.folder, writer)

    def batches(self, writer: str) -> list[int]:
        """Numbers of a writer's committed batches, ascending."""
        return list(self.records(writer).between(-1, None))

    def files(self, writer: str, batch: int) -> list[BatchFile]:
        """The files of a batch; none if it is not committed.

        Raises
        ------
        FileError
        """
        return self.records(writer).between(batch - 1, batch).get(batch, [])

    def rows(self, file: BatchFile) -> Iterator[pa.RecordBatch]:
        """The rows of a committed file.

        Raises
        ------
        FileError
        """
        path = Path(self.folder, file.name)
        with readable(path), pq.ParquetFile(path) as opened:
            yield from opened.iter_batches()


def check_writer(name: str) -> str:
    """Check a writer's name, which is also a folder's.

    Raises
    ------
    UsageError
    """
    if not _is_writer(name):
        raise UsageError(f"option writer is letters, digits, - and _, at most 100, not {name!r}")
    return name


def _is_writer(name: str) -> bool:
    return name.replace("-", "").replace("_", "").isalnum() and len(name) <= 100


def _columns(schema: str) -> list[tuple[str, str]]:
    return [(f["name"], json.dumps(f["type"])) for f in json.loads(schema)["fields"]]


def _told(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {json.loads(kind)}" for name, kind in columns)
