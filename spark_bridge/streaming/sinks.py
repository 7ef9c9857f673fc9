"""Sinks for trying out a query: console, memory, noop; and tables of the session over files."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType

from penstock.errors import UsageError
from penstock.host.store.location import Location

from ..inputs import identifier
from ..sources.source_options import Options
from ..text_values import flag, whole
from .join_writer import Sink
from .notes import plain
from .output_folders import FolderSink
from .room import SPARK_ERRORS

#: Names of the formats.
CONSOLE, MEMORY, NOOP = "console", "memory", "noop"

#: Spark's setting by which tables over files list them, instead of noting each folder.
_NOTED = "spark.sql.hive.manageFilesourcePartitions"


@dataclass(frozen=True)
class ConsoleSink:
    """Prints each micro-batch where the driver's Python runs, as Spark's sink does.

    Parameters
    ----------
    rows : int
        Most rows that are printed.
    truncate : bool
        Whether long values are cut.
    """

    rows: int = 20
    truncate: bool = True

    @staticmethod
    def from_options(options: dict[str, str]) -> ConsoleSink:
        """The sink of a writer's options.

        Raises
        ------
        UsageError
        """
        chosen = Options(options, "format console")
        rows = chosen.read("numRows", whole(), 20)
        return ConsoleSink(rows, chosen.read("truncate", flag, True))

    def __call__(self, rows: DataFrame, batch: int) -> None:
        line = "-" * 43
        sys.stdout.write(f"{line}\nBatch: {batch}\n{line}\n")
        rows.show(self.rows, self.truncate)
        sys.stdout.flush()


@dataclass(frozen=True)
class MemorySink:
    """Keeps all rows in the driver, as a temporary view.

    Parameters
    ----------
    spark : SparkSession
        Gets the view; Spark calls the sink with a session of the query's own.
    name : str
        Of the view.
    schema : StructType
        Of the output.
    """

    spark: SparkSession
    name: str
    schema: StructType
    batches: dict[int, pa.Table] = field(default_factory=dict)

    def open(self) -> None:
        """Make the view, without rows."""
        self.spark.createDataFrame([], self.schema).createOrReplaceTempView(self.name)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.batches[batch] = rows.toArrow()
        # Of chunks, Spark would read none behind an empty one.
        whole = pa.concat_tables(self.batches.values()).combine_chunks()
        self.spark.createDataFrame(whole, self.schema).createOrReplaceTempView(self.name)


def noop(rows: DataFrame, batch: int) -> None:
    """Compute the rows of a micro-batch, and drop them."""
    rows.write.format(NOOP).mode("overwrite").save()


@dataclass(frozen=True)
class TableSink:
    """A sink of files that lets a table over them see each micro-batch.

    Parameters
    ----------
    sink : callable
    spark : SparkSession
        Whose table it is.
    name : str
    """

    sink: Sink
    spark: SparkSession
    name: str

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.sink(rows, batch)
        self.spark.catalog.refreshTable(self.name)


def table_over(spark: SparkSession, name: str, sink: FolderSink, schema: StructType) -> TableSink:
    """Make a table of the session's catalog over a folder of batches, if there is none.

    Raises
    ------
    UsageError
        There is one over something else.
    """
    if plain(sink.path) != sink.path:
        raise UsageError(
            f"{sink.path} has signs that Spark's tables take for patterns, such as * and [; choose "
            "another path, or start(path)"
        )
    _make_table(spark, name, sink, schema)
    require_table_at(spark, name, sink.path)
    spark.catalog.refreshTable(name)
    return TableSink(sink, spark, name)


def managed_table(spark: SparkSession, name: str, sink: FolderSink, schema: StructType) -> str:
    """Make a table where the session keeps its own, if there is none; return its folder.

    Parameters
    ----------
    sink : FolderSink
        Without a path.

    Raises
    ------
    UsageError
        There is one of another format, or one that has no folder.
    """
    sink.check(schema.names)
    _make_table(spark, name, sink, schema)
    info = _described(spark, name)
    if not info.get("Location") or info.get("Provider", "").lower() != sink.format.lower():
        raise UsageError(
            f"table {name} is there, and is no table of format {sink.format} (its provider is "
            f"{info.get('Provider', 'none')}); choose another name, or drop the table"
        )
    return _plain(info["Location"])


def _make_table(spark: SparkSession, name: str, sink: FolderSink, schema: StructType) -> None:
    schema = StructType([*schema]).add("batch", LongType())
    columns = ", ".join(f"{identifier(f.name)} {f.dataType.simpleString()}" for f in schema)
    by = ", ".join(map(identifier, ("batch", *sink.by)))
    chosen = ({"path": sink.path} if sink.path else {}) | sink.options
    options = ", ".join(f"{_quoted(k)} = {_quoted(v)}" for k, v in chosen.items())
    # The table lists the folders whenever it is read, so that there is nothing to keep in step.
    noted = spark.conf.get(_NOTED)
    spark.conf.set(_NOTED, "false")
    try:
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING {sink.format} "
            f"{f'OPTIONS ({options})' if options else ''} PARTITIONED BY ({by})"
        )
    finally:
        spark.conf.set(_NOTED, noted or "true")


def delta_table_over(spark: SparkSession, name: str, location: str) -> None:
    """Make a table of the session's catalog over a Delta table, if there is none.

    Raises
    ------
    UsageError
        Spark cannot read Delta tables, or there is one over something else.
    """
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION {_quoted(location)}")
    except SPARK_ERRORS as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise UsageError(
            f"table {name} cannot be made: this Spark has no data source delta, since Delta's JARs "
            "are missing; start(path) writes the table without them, and other programs can read it"
        ) from error
    require_table_at(spark, name, location)


def require_table_at(spark: SparkSession, name: str, path: str) -> None:
    """Refuse a table that lies elsewhere.

    Raises
    ------
    UsageError
    """
    info = _described(spark, name)
    location = info.get("Location", "")
    if not location or _plain(location) != _plain(path):
        raise UsageError(
            f"table {name} is there, and lies in {location or 'no folder'}, not in {path}; choose "
            "another name, or drop the table"
        )


def _described(spark: SparkSession, name: str) -> dict[str, str]:
    rows = spark.sql(f"DESCRIBE EXTENDED {name}").collect()
    return {row["col_name"]: row["data_type"] for row in rows}


def _plain(location: str) -> str:
    """A location without the signs by which Spark's differs from the user's."""
    return str(Location.parse(location).path or location).rstrip("/")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
