"""Relations made of DataFrames, by a Spark job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from penstock.arguments import whole
from penstock.errors import SchemaError, UsageError
from penstock.host.join.lookup.relation_source import RelationTable, whole_location
from penstock.host.relation import RelationOptions
from penstock.host.relation.folder.build import PAGE_BYTES
from penstock.host.relation.folder.built_parts import PartsBuild, build_in_parts
from penstock.host.relation.folder.folder_relation import MEMORY_BYTES
from penstock.host.relation.folder.segment import SegmentRecord
from penstock.host.relation.folder.zorder import SAMPLE

from ..conf import Conf
from ..inputs import identifier
from ..request import frame_of
from ..rows import cast_to
from ..session_settings import shuffle_partitions
from ..shown import described, task_of
from ..types import arrow_schema, arrow_type

#: Column of a row's part; columns of the DataFrame are named by number.
_PART = "part"
#: Columns of the row in which a task reports its part.
_REPORT = "part int, record string"


def relation(
    spark: SparkSession,
    table: DataFrame | str,
    location: str | PathLike,
    *,
    key: str | Sequence[str] = (),
    cluster: str | Sequence[str] = (),
    unique: bool = False,
    page_bytes: int | None = None,
    lanes: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> RelationTable:
    """Store a DataFrame of any size as a relation, for lookups by :func:`~..api.sql`.

    Parameters
    ----------
    spark : SparkSession
    table : DataFrame or str
        A string names a table or temporary view of the session.
    location : str or path
        A path that does not exist, which the driver and all executors share, or a place in an
        object store.
    key : str or sequence of str
        Columns by which rows are looked up, replaced and removed.
    cluster : str or sequence of str
        Columns of numbers or times that queries compare otherwise than by ``=``.
    unique : bool
        Whether several rows with one key are an error.
    page_bytes : int, optional
    lanes : int, optional
        Tasks that sort and write a part each; by default ``spark.sql.shuffle.partitions``.
    memory_bytes : int
        About what each of them uses for sorting.

    Returns
    -------
    relation
        As :func:`penstock.relation` gives it.

    Raises
    ------
    UsageError, SchemaError, FileError
        On the call. Errors in the data are raised in a task; Spark's error quotes them.

    Examples
    --------
    >>> stored = spark_bridge.relation(spark, gps, "cabs.rel", key="cab", lanes=1)
    >>> by_key = "SELECT id, g.x FROM orders o JOIN gps g ON o.id + 5 = g.cab"
    >>> spark_bridge.sql(spark, by_key, {"orders": orders, "gps": stored}).collect()
    [Row(id=2, x=2)]
    """
    conf = Conf.read(spark)
    del conf  # only checked
    frame = frame_of(spark, "to store", table)
    if frame.isStreaming:
        raise UsageError(
            "a relation is made of a batch DataFrame, not of a stream; add rows of a stream inside "
            "foreachBatch, by `penstock relation update`"
        )
    if lanes is not None:
        whole("lanes", lanes, 1)
    options = RelationOptions(
        key=_names(key),
        cluster=_names(cluster),
        unique=unique,
        page_bytes=PAGE_BYTES if page_bytes is None else page_bytes,
    )
    schema, place = _stored_schema(frame), whole_location(location)
    parts = lanes or shuffle_partitions(spark)

    def write(build: PartsBuild) -> list[SegmentRecord]:
        return _write(frame, build, schema, memory_bytes)

    built = build_in_parts(schema, place, options, parts, write, _sample(frame, options.cluster))
    built.close()
    return RelationTable(place)


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _stored_schema(frame: DataFrame) -> pa.Schema:
    for field in frame.schema:
        if arrow_type(field.dataType) is None:
            raise SchemaError(
                f"column {field.name} has Spark type {field.dataType.simpleString()}, which a "
                "relation cannot store; leave it out, or CAST it"
            )
    if len(set(frame.columns)) < len(frame.columns):
        twice = next(name for name in frame.columns if frame.columns.count(name) > 1)
        raise SchemaError(f"the table has two columns {twice}; rename one")
    return arrow_schema(frame.schema)


def _sample(frame: DataFrame, cluster: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read a sample of rows, whose values say where to split a cluster."""
    if not cluster:
        return
    missing = [name for name in cluster if name not in frame.columns]
    if missing:
        return  # the schema's check names them
    rows = frame.count()
    share = min(1.0, 2 * SAMPLE / max(1, rows))
    fields = [frame.schema[name] for name in cluster]
    schema = arrow_schema(spark_types.StructType(fields))
    chosen = frame.select(*(F.col(identifier(name)) for name in cluster)).sample(False, share, 0)
    for batch in chosen.toArrow().to_batches():
        yield cast_to(batch, schema)


def _write(
    frame: DataFrame, build: PartsBuild, schema: pa.Schema, memory_bytes: int
) -> list[SegmentRecord]:
    """Run the job that writes all parts."""
    named = frame.toDF(*(f"c{k}" for k in range(len(frame.columns))))
    with_part = spark_types.StructType(
        [*named.schema.fields, spark_types.StructField(_PART, spark_types.IntegerType())]
    )
    task = _PartTask(build, schema, memory_bytes)

    number = task_of("parts of a relation", lambda batches: task.number(batches))
    write = task_of("relation", lambda batches: task.write(batches))
    numbered = named.mapInArrow(number, with_part)
    with described(frame.sparkSession, "stores a DataFrame as a relation"):
        written = numbered.repartitionById(build.parts, _PART).mapInArrow(write, _REPORT).collect()
    records = sorted((row["part"], row["record"]) for row in written)
    if not records:
        return [build.write([])]
    return [SegmentRecord(**json.loads(record)) for _, record in records]


@dataclass(frozen=True)
class _PartTask:
    """Work of the job's tasks: number each row's part, and, after a shuffle, write a part."""

    build: PartsBuild
    schema: pa.Schema
    memory_bytes: int

    def number(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add to rows the number of their part."""
        for batch in batches:
            part = pa.array(self.build.part_of(cast_to(batch, self.schema)))
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, part], names=[*batch.schema.names, _PART]
            )

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a part; yield its number and its record."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        part = first.column(first.num_columns - 1)[0].as_py()
        rows = (
            cast_to(batch.select(range(len(self.schema))), self.schema)
            for batch in chain([first], filled)
        )
        record = self.build.write(rows, self.memory_bytes)
        columns = [pa.array([part], pa.int32()), pa.array([json.dumps(record.as_dict())])]
        yield pa.RecordBatch.from_arrays(columns, names=["part", "record"])
