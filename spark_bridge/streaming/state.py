"""The state design: windows in Spark's own state store, and a DataFrame to go on with.

Each state call is a round trip to the JVM, so state is few, big values: rows are packed into Arrow
messages before the shuffle, and lie in the state as such. Every shard gets all rows and keeps its
share; each pair is found by the shard that keeps its earlier row, or, of one micro-batch, its
right one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import QueryError, UsageError
from penstock.plan.query import JoinKind, JoinQuery

from ..metrics.observed import COLUMNS, observed
from ..rows import table_of
from ..types import spark_schema
from .identity import identity
from .packing import PACKED, packed
from .shard import ShardProcessor
from .spec import JoinSpec
from .starting import check_query, with_check

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def with_state(spark: SparkSession, spec: JoinSpec, rows: DataFrame, shards: int) -> DataFrame:
    """The join as a streaming DataFrame.

    Parameters
    ----------
    spark : SparkSession
    spec : JoinSpec
    rows : DataFrame
        Of both sides.
    shards : int

    Raises
    ------
    QueryError
        The query needs one shard.
    UsageError
        Spark's state store cannot do it.
    """
    _check(spark, spec.query(), shards)
    keys = _keys(spark, shards)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        filled = [batch for batch in batches if batch.num_rows]
        if filled:
            yield from packed(pa.Table.from_batches(filled), part, keys)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for message in batch.column(0):
                yield from table_of(message.as_py()).to_batches()

    sent = rows.mapInArrow(pack, PACKED).groupBy("lane")
    # A shard is found by its key: state under other keys would be lost.
    wanted = identity(spec) | {"lanes": shards, "spark.sql.shuffle.partitions": keys}
    columns = ", ".join(f"{name} {dtype}" for name, dtype in COLUMNS.items())
    found = sent.transformWithStateInPandas(
        ShardProcessor(spec, keys, wanted), f"rows binary, {columns}", "append", "none"
    )
    joined = observed(found, spec.names, shards).mapInArrow(unpack, spark_schema(spec.output))
    return with_check(joined, partial(check_query, spark, wanted))


def _check(spark: SparkSession, query: JoinQuery, shards: int) -> None:
    if shards > 1 and (query.kind is not JoinKind.INNER or query.aggregation is not None):
        what = "a query with groups" if query.aggregation else f"a {query.kind.value} JOIN"
        raise QueryError(
            f"the state design joins {what} in one lane, not {shards}: what a row matches in all "
            "lanes is put together by the files design only; give lanes=1, or design='files'"
        )
    if shards > 1 and query.is_rows:
        raise QueryError(
            f"the state design joins ROWS in one lane, not {shards}, since their order is one; "
            "give lanes=1, or design='files'"
        )
    if spark.conf.get(_PROVIDER, "") != _ROCKSDB:
        raise UsageError(
            "Spark keeps such state in RocksDB only: set "
            f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}"), or give design="files"'
        )


def _keys(spark: SparkSession, shards: int) -> list[int]:
    """A key per shard, such that no two share a partition, as far as there are enough."""
    parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    part = F.expr(f"pmod(hash(cast(id as int)), {parts})").alias("part")
    found: dict[int, list[int]] = {}
    for row in spark.range(16 * max(parts, shards)).select("id", part).collect():
        found.setdefault(row["part"], []).append(row["id"])
    turns = [keys[k] for k in range(shards) for keys in found.values() if k < len(keys)]
    return turns[:shards]
