"""The state design: windows in Spark's own state store, and a DataFrame to go on with.

Each access to state is a round trip to the JVM, so there are few and large values: rows are packed
into Arrow messages before the shuffle and stay packed in the state. Every shard gets all rows and
keeps a share of them. A pair is found by the shard that keeps its earlier row; if both rows come in
one micro-batch, by the shard that keeps the right one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import MistakenError, UsageError
from penstock.plan.query import JoinKind, JoinQuery

from ..metrics.observed import COLUMNS, observe
from ..rows import message_of, table_of
from ..shown import task_of, told
from ..task import partition
from ..types import spark_schema
from .identity import identity
from .shard import ShardProcessor
from .spec import IS_RIGHT, JoinSpec
from .starting import check_query, with_check

#: Rows on their way to the shards: which shard, the order, whether the shard keeps them, the rows
#: as an Arrow message.
_PACKED = pa.schema(
    [
        ("lane", pa.int32()),
        ("part", pa.int32()),
        ("number", pa.int32()),
        ("is_right", pa.bool_()),
        ("kept", pa.bool_()),
        ("rows", pa.binary()),
    ]
)

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
    MistakenError
        The query needs one shard.
    UsageError
        Spark's state store cannot do it.
    """
    _check(spark, spec.query(), shards)
    keys = _keys(spark, shards)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = [batch for batch in batches if batch.num_rows]
        if filled:
            yield from _packed(pa.Table.from_batches(filled), partition(), keys)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for message in batch.column(0):
                yield from table_of(message.as_py()).to_batches()

    sent = rows.mapInArrow(task_of("rows of lanes", pack), spark_schema(_PACKED)).groupBy("lane")
    # The state of a shard is found by its key, so the keys must stay.
    wanted = identity(spec) | {"lanes": shards, "spark.sql.shuffle.partitions": keys}
    columns = ", ".join(f"{name} {dtype}" for name, dtype in COLUMNS.items())
    found = sent.transformWithStateInPandas(
        ShardProcessor(spec, keys, wanted), f"rows binary, {columns}", "append", "none"
    )
    rows_out = observe(found, spec.names, shards)
    joined = rows_out.mapInArrow(task_of(told(spec.query()), unpack), spark_schema(spec.output))
    return with_check(joined, partial(check_query, spark, wanted))


def _packed(rows: pa.Table, part: int, keys: list[int]) -> Iterator[pa.RecordBatch]:
    """Messages with all rows of one partition for every shard, which keeps some of them."""
    number = 0
    for is_right in (False, True):
        own = rows.filter(pc.field(IS_RIGHT) == is_right).drop_columns([IS_RIGHT]).combine_chunks()
        for k, keeper in enumerate(keys):
            first, last = (own.num_rows * n // len(keys) for n in (k, k + 1))
            if first == last:
                continue
            message = message_of(own.slice(first, last - first))
            for shard in keys:
                values = (shard, part, number, is_right, shard == keeper, message)
                arrays = [pa.array([v], t) for v, t in zip(values, _PACKED.types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=_PACKED)
            number += 1


def _check(spark: SparkSession, query: JoinQuery, shards: int) -> None:
    if shards > 1 and (query.kind is not JoinKind.INNER or query.aggregation is not None):
        what = "a query with groups" if query.aggregation else f"a {query.kind.value} JOIN"
        raise MistakenError(
            f"the state design joins {what} in one lane, not {shards}: what a row matches in all "
            "lanes is put together by the files design only; give lanes=1, or design='files'"
        )
    if shards > 1 and query.is_rows:
        raise MistakenError(
            f"the state design joins ROWS in one lane, not {shards}, since their order is one; "
            "give lanes=1, or design='files'"
        )
    if spark.conf.get(_PROVIDER, "") != _ROCKSDB:
        raise UsageError(
            "Spark keeps such state in RocksDB only: set "
            f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}"), or give design="files"'
        )


def _keys(spark: SparkSession, shards: int) -> list[int]:
    """A key per shard; no two are in one partition while there are enough partitions."""
    parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    part = F.expr(f"pmod(hash(cast(id as int)), {parts})").alias("part")
    found: dict[int, list[int]] = {}
    for row in spark.range(16 * max(parts, shards)).select("id", part).collect():
        found.setdefault(row["part"], []).append(row["id"])
    turns = [keys[k] for k in range(shards) for keys in found.values() if k < len(keys)]
    return turns[:shards]
