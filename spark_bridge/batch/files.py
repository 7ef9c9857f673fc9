"""Small Parquet files that a task reads itself, in place of rows that Spark reads for it.

Spark turns columns of a file into rows, and these into columns for Python, which takes longer than
to join some hundred thousand of them. Files are read so only where that gives Spark's own values:
types are the same without any conversion, and times are of no calendar that Spark would convert.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from penstock.errors import FileError
from penstock.host.rows.location import Location
from penstock.plan.query import other

from ..rows import cast_to, used_schema
from .reader import Rows

#: More of them take longer to open on the driver than a job takes to begin.
_MOST_FILES = 16

_DATASOURCES = "org.apache.spark.sql.execution.datasources."
#: What reads the files of a DataFrame; those of table formats, which know of deleted rows, differ.
_RELATION = (
    _DATASOURCES + "HadoopFsRelation",
    _DATASOURCES + "parquet.ParquetFileFormat",
    _DATASOURCES + "InMemoryFileIndex",
)
#: Settings with which Spark reads other rows than the files have.
_OTHERWISE = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.int96TimestampConversion",
    "spark.sql.parquet.fieldId.read.enabled",
)

_SPARK, _LEGACY = b"org.apache.spark.version", b"org.apache.spark.legacy"
#: Spark that writes times as they are, unless it says so in the file. Spark, too, compares texts.
_LEAST_SPARK = b"3.1.0"
#: Since then all calendars and zones are as they are now; days since 1970, and microseconds.
_MODERN_DAY = -25_202
_MODERN_MICROS = _MODERN_DAY * 86_400_000_000
#: Behind the footer: its length, and four bytes that end any Parquet file.
_TAIL = 8
_INSTANT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class File:
    """A file as it was at the call.

    Parameters
    ----------
    path : str
    identity : str
        Its size and a hash of its footer; a copy on another machine has the same.
    """

    path: str
    identity: str

    @staticmethod
    def at(path: str) -> File:
        """The file that is at a path now; an OSError if it has no end of a Parquet file."""
        with open(path, "rb") as file:
            size = file.seek(-_TAIL, os.SEEK_END) + _TAIL
            length = int.from_bytes(file.read(4), "little")
            file.seek(-_TAIL - length, os.SEEK_END)
            footer = file.read(length)
        return File(path, f"{size} {blake2b(footer, digest_size=16).hexdigest()}")


@dataclass(frozen=True)
class FileReader:
    """Reads the rows of both sides from files, in place of a :class:`.reader.ShardReader`.

    Parameters
    ----------
    held_side : str
    files : mapping of side to sequence of File
    schemas : mapping of side to pyarrow.Schema
        Of the columns that the query needs.
    """

    held_side: str
    files: Mapping[str, Sequence[File]]
    schemas: Mapping[str, pa.Schema]

    def held(self) -> Rows:
        """All rows of the held side.

        Raises
        ------
        FileError
        """
        schema = self.schemas[self.held_side]
        return Rows(pa.Table.from_batches(self._batches(self.held_side), schema))

    def parts(self, most: int | None) -> Iterator[Rows]:
        """The other side's rows, at most ``most`` of a file at a time.

        Raises
        ------
        FileError
        """
        side = other(self.held_side)
        batches = self._batches(side, most)
        if most is None:
            yield Rows(pa.Table.from_batches(batches, self.schemas[side]))
            return
        for batch in batches:
            yield Rows(pa.Table.from_batches([batch]))

    def _batches(self, side: str, most: int | None = None) -> Iterator[pa.RecordBatch]:
        schema = self.schemas[side]
        for one in self.files[side]:
            try:
                if File.at(one.path) != one:
                    raise OSError("it is another file than at the call")
                with _opened(one.path) as file:
                    size = most or max(file.metadata.num_rows, 1)
                    for batch in file.iter_batches(size, columns=schema.names):
                        yield cast_to(batch.select(schema.names), schema)
            except (OSError, pa.ArrowException) as error:
                raise FileError(
                    f"cannot read {one.path}: {error}; see that nothing replaces the files of a "
                    "DataFrame while it is read, and call again"
                ) from error


def readable(
    frame: DataFrame, slots: Mapping[str, str], schema: pa.Schema
) -> tuple[tuple[File, ...], int] | None:
    """Files of a DataFrame that a task may read itself, and their rows; None if not.

    Parameters
    ----------
    frame : DataFrame
        Of a classic session.
    slots : mapping of column to slot
        The columns that are read.
    schema : pyarrow.Schema
        Of the DataFrame.
    """
    paths = _paths(frame)
    if paths is None:
        return None
    used, rows = used_schema(slots, schema), 0
    found = []
    for path in paths:
        try:
            found.append(File.at(path))
            with _opened(path) as file:
                if not all(_is_same(file, field) for field in used):
                    return None
                rows += file.metadata.num_rows
        except (OSError, pa.ArrowException):
            return None  # Spark may read it, or says why not
    return tuple(found), rows


def _paths(frame: DataFrame) -> list[str] | None:
    """Files of this machine whose rows are a DataFrame's; None if it is made of anything else."""
    spark: Any = frame.sparkSession
    if not spark._jsparkSession.sharedState().cacheManager().isEmpty():
        frame = frame.select("*")  # its plan may be older than what is cached
    plan: Any = frame._jdf.queryExecution().optimizedPlan()  # type: ignore[attr-defined]
    if _name(plan).endswith(".Project"):
        if not _is_choice(plan.projectList().mkString("\0").split("\0"), frame.columns):
            return None
        plan = plan.child()
    if _name(plan) != _DATASOURCES + "LogicalRelation":
        return None
    relation = plan.relation()
    if _name(relation) != _RELATION[0]:
        return None
    location = relation.location()
    if (_name(relation.fileFormat()), _name(location)) != _RELATION[1:]:
        return None
    is_plain = relation.partitionSchema().isEmpty() and relation.bucketSpec().isEmpty()
    if not is_plain or relation.options().keySet().mkString() not in ("", "path"):
        return None
    if any(spark.conf.get(key, "false") != "false" for key in _OTHERWISE):
        return None
    files = location.inputFiles()
    if not 0 < len(files) <= _MOST_FILES:
        return None
    paths = [Location.of(str(file)).path for file in files]
    return None if None in paths else list(map(str, paths))


def _name(one: Any) -> str:
    """The name of a Java object's class."""
    return str(one.getClass().getName())


def _is_choice(expressions: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether expressions of a plan are nothing but columns, under their own names."""
    return len(expressions) == len(columns) and all(
        re.fullmatch(re.escape(name) + r"#\d+L?", text)
        for name, text in zip(columns, expressions, strict=True)
    )


def _opened(path: str) -> pq.ParquetFile:
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us", page_checksum_verification=True)


def _is_same(file: pq.ParquetFile, field: pa.Field) -> bool:
    """Whether a column of a file has the values that Spark reads in it."""
    schema = file.schema_arrow
    # Spark finds names in any case.
    if [name for name in schema.names if name.lower() == field.name.lower()] != [field.name]:
        return False
    if pa.types.is_nested(field.type):
        return False
    # What is within a struct may have such a path, too.
    leaves = [k for k in range(len(file.schema)) if file.schema.column(k).path == field.name]
    if len(leaves) != 1 or pa.types.is_nested(schema.field(field.name).type):
        return False
    number = leaves[0]
    is_int96 = file.schema.column(number).physical_type == "INT96"
    if field.type != (_INSTANT if is_int96 else schema.field(field.name).type):
        return False
    is_time = pa.types.is_temporal(field.type) and not pa.types.is_duration(field.type)
    least = _MODERN_DAY if pa.types.is_date(field.type) else _MODERN_MICROS
    return not is_time or _is_modern(file.metadata, number, least)


def _is_modern(metadata: pq.FileMetaData, number: int, least: int) -> bool:
    """Whether Spark takes times as they are, in a file of Spark's or by its statistics."""
    about = metadata.metadata or {}
    is_legacy = any(key.startswith(_LEGACY) for key in about)
    if not is_legacy and about.get(_SPARK, b"") >= _LEAST_SPARK:
        return True
    groups = [metadata.row_group(k).column(number) for k in range(metadata.num_row_groups)]
    return all(
        own.is_stats_set and own.statistics.has_min_max and own.statistics.min_raw >= least
        for own in groups
    )
