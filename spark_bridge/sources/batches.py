"""``penstock_batches``: reads folders of batches that earlier versions of Penstock wrote.

``schema.json`` has the columns. ``commits/<writer>/<batch>.json`` is the record of a batch: the
files of rows that count, which lie below ``rows/``. Records of old batches were folded together
into ``folded/<writer>/1/<first>-<last>.json``, those into level 2, and so on. Files that no record
names are of failed tasks, and are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.datasource as spark_api
from pyspark.sql import types as spark

from penstock.errors import FileError, UsageError
from penstock.host.store.location import local_path
from penstock.host.store.own_names import NUMBER, OwnNames
from penstock.spark_bridge.sources.source_options import Options

from ..rows import cast_to
from ..types import arrow_schema

#: Name of the format.
NAME = "penstock_batches"

#: About how many bytes a reader's task gets.
_PART_BYTES = 64 << 20

_COMMITS, _FOLDED = "commits", "folded"
#: Names of the record of a batch, and of a file of folded records.
_RECORD, _FOLDED_RECORDS = OwnNames(rf"{NUMBER}\.json"), OwnNames(rf"{NUMBER}-{NUMBER}\.json")


class BatchesSource(spark_api.DataSource):
    """The reader; docs/spark/sources.md has its option."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> spark.StructType:
        return spark.StructType.fromJson(json.loads(self._folder.schema()))

    def reader(self, schema: spark.StructType) -> BatchesReader:
        return BatchesReader(self._folder, schema)

    def streamReader(self, schema: spark.StructType) -> BatchesStreamReader:
        return BatchesStreamReader(self._folder, schema)

    def writer(self, schema: spark.StructType, overwrite: bool) -> NoReturn:
        raise writing_refused()

    def streamWriter(self, schema: spark.StructType, overwrite: bool) -> NoReturn:
        raise writing_refused()

    @property
    def _folder(self) -> BatchFolder:
        options = Options(self.options, NAME)
        return BatchFolder.at(options.required("path", "a folder that driver and workers share"))


def writing_refused() -> UsageError:
    """The error of a query that writes with this format, as earlier versions could."""
    return UsageError(
        f"format {NAME} only reads folders that earlier versions of Penstock wrote; write with "
        'format("delta"), which commits each micro-batch once, too. Delta has no type for '
        "durations (INTERVAL DAY TO SECOND): CAST them, as in CAST(b.t - a.t AS DOUBLE), which "
        "gives seconds"
    )


@dataclass(frozen=True)
class BatchFile:
    """Rows of a batch that one task wrote.

    Parameters
    ----------
    name : str
        Within the folder.
    rows, bytes : int
    """

    name: str
    rows: int
    bytes: int


#: Files of batches by number.
Batches = dict[int, list[BatchFile]]


@dataclass(frozen=True)
class BatchFolder:
    """A folder of batches; one and the same on the driver and on all workers.

    Parameters
    ----------
    path : str
    """

    path: str

    @classmethod
    def at(cls, path: str) -> BatchFolder:
        """Take a path, or a ``file:`` URI.

        Raises
        ------
        UsageError
            It is another URI, or a path that each process would begin in a folder of its own.
        """
        folder = local_path(path, f"{NAME} takes one that driver and workers share")
        if not folder.is_absolute():
            raise UsageError(
                f"{NAME} cannot take {path}, since driver and workers have working folders of "
                "their own: give the whole path of a folder that they share"
            )
        return cls(str(folder))

    def schema(self) -> str:
        """Spark's schema of all batches, as JSON.

        Raises
        ------
        FileError
            It is no folder of batches.
        """
        try:
            return Path(self.path, "schema.json").read_text(encoding="utf-8")
        except OSError as error:
            raise FileError(
                f"there are no batches in {self.path} ({error.strerror}); give the folder that an "
                f"earlier version of Penstock wrote with format {NAME}"
            ) from error

    def writers(self) -> list[str]:
        """Names of the queries that have committed batches."""
        folder = Path(self.path, _COMMITS)
        folders = folder.iterdir() if folder.is_dir() else ()
        return sorted(p.name for p in folders if _is_writer(p.name) and p.is_dir())

    def latest(self, writer: str) -> int | None:
        """Number of the last batch, which is never folded; None if there is none."""
        return max(self._single(writer), default=None)

    def between(self, writer: str, after: int = -1, last: int | None = None) -> Batches:
        """Batches with numbers above ``after`` and up to ``last``, ascending.

        A crash may have left a record in two files, which say the same.

        Raises
        ------
        FileError
        """
        batches: Batches = {}
        for number in self._single(writer):
            if number > after and (last is None or number <= last):
                batches |= self._read(Path(self.path, _COMMITS, writer, f"{number}.json"))
        for path in Path(self.path, _FOLDED, writer).glob("*/*.json"):
            if _FOLDED_RECORDS.has(path.name):
                first, final = map(int, path.stem.split("-"))
                if final > after and (last is None or first <= last):
                    batches |= self._read(path)
        return {
            number: batches[number]
            for number in sorted(batches)
            if number > after and (last is None or number <= last)
        }

    def rows(self, file: BatchFile) -> Iterator[pa.RecordBatch]:
        """The rows of a committed file.

        Raises
        ------
        FileError
        """
        path = Path(self.path, file.name)
        with _readable(path), pq.ParquetFile(path) as opened:
            yield from opened.iter_batches()

    def _single(self, writer: str) -> list[int]:
        """Numbers of the batches with a record of their own, ascending."""
        paths = Path(self.path, _COMMITS, writer).glob("*.json")
        return sorted(int(path.stem) for path in paths if _RECORD.has(path.name))

    def _read(self, path: Path) -> Batches:
        """The records in a file."""
        with _readable(path):
            records = json.loads(path.read_bytes())
            if _RECORD.has(path.name):
                records = {path.stem: records["files"]}
            return {int(n): [BatchFile(**one) for one in files] for n, files in records.items()}


class _Rows:
    """Reads committed files in a task; base of both readers."""

    def __init__(self, folder: BatchFolder, schema: spark.StructType) -> None:
        self.folder, self.schema = folder, arrow_schema(schema)

    def parts(self, batches: Iterable[Batches]) -> list[spark_api.InputPartition]:
        parts: list[list[BatchFile]] = []
        size = _PART_BYTES
        for file in (file for some in batches for files in some.values() for file in files):
            if size + file.bytes > _PART_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(file)
            size += file.bytes
        return [spark_api.InputPartition(files) for files in parts]

    def read(self, partition: spark_api.InputPartition) -> Iterator[pa.RecordBatch]:
        for file in partition.value:
            for batch in self.folder.rows(file):
                yield cast_to(batch.select(self.schema.names), self.schema)


class BatchesReader(_Rows, spark_api.DataSourceReader):
    """Reads all committed rows."""

    def partitions(self) -> list[spark_api.InputPartition]:
        return self.parts(map(self.folder.between, self.folder.writers()))


class BatchesStreamReader(_Rows, spark_api.DataSourceStreamReader):
    """Reads committed batches; an offset is the number of each writer's latest."""

    def initialOffset(self) -> dict:
        return {}

    def latestOffset(self) -> dict:  # type: ignore[override]
        latest = {writer: self.folder.latest(writer) for writer in self.folder.writers()}
        return {writer: number for writer, number in latest.items() if number is not None}

    def partitions(self, start: dict, end: dict) -> Sequence[spark_api.InputPartition]:
        return self.parts(
            self.folder.between(writer, start.get(writer, -1), last)
            for writer, last in sorted(end.items())
        )


def _is_writer(name: str) -> bool:
    return name.replace("-", "").replace("_", "").isalnum() and len(name) <= 100


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say what to do where a file cannot be read.

    Raises
    ------
    FileError
    """
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # Arrow's are too
        message = f"{path} cannot be read: {error}; restore the folder from a backup"
        raise FileError(message) from error
