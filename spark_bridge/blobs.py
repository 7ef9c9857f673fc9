"""Partial aggregates as Spark rows: a bucket, and an Arrow table as bytes.

As bytes, because partial sums may have more digits than Spark's decimals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.host.join.parts.groups import merged_groups
from penstock.host.keys.hashing import hash_groups
from penstock.host.routing.base import cells_of_hashes
from penstock.host.rows.columns import vector

from .compiled import Compiled
from .rows import in_batches, message_of, table_of
from .shown import task_of
from .types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Columns of the rows, and their types.
BUCKET, BLOB = "bucket", "blob"
SCHEMA = pa.schema([(BUCKET, pa.int32()), (BLOB, pa.binary())])


def blobs_of(
    partial: pa.RecordBatch, keys: Sequence[str], buckets: int
) -> Iterator[pa.RecordBatch]:
    """Rows with the partial aggregates of the groups of each bucket."""
    if not partial.num_rows:
        return
    vectors = [vector(partial.column(name), None, name) for name in keys]
    bucket = cells_of_hashes(hash_groups(vectors, partial.num_rows), buckets)
    numbers = np.unique(bucket)
    blobs = [message_of(partial.filter(pa.array(bucket == one))) for one in numbers]
    yield pa.RecordBatch.from_arrays(
        [pa.array(numbers.astype(np.int32)), pa.array(blobs, pa.binary())], schema=SCHEMA
    )


def tables_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The tables in rows of :func:`blobs_of`; an empty blob has none."""
    for batch in batches:
        for blob in batch.column(BLOB):
            data = blob.as_buffer()
            if data is not None and data.size:
                yield table_of(data)


def merged(
    partial: DataFrame, compiled: Compiled, output: pa.Schema, tasks: int, output_rows: int
) -> DataFrame:
    """Merge partial aggregates into groups, by key, in so many tasks after a shuffle.

    Parameters
    ----------
    partial : DataFrame
        Rows of :func:`blobs_of`, with a bucket for each task.
    compiled, output, output_rows
        As for :func:`merge`.
    tasks : int
        One for groups without keys.
    """
    from pyspark.sql import functions as F

    aggregation = compiled.query().aggregation
    if aggregation is None or not aggregation.keys:
        # Without keys there is one group, even if nothing joins.
        empty = F.lit(b"").cast("binary").alias(BLOB)
        one_group = partial.sparkSession.range(1).select(F.lit(0).alias(BUCKET), empty)
        partial = partial.union(one_group)
    work = task_of("merged groups", lambda rows: merge(compiled, output, output_rows, rows))
    return partial.repartitionById(tasks, BUCKET).mapInArrow(work, spark_schema(output))


def merge(
    compiled: Compiled, output: pa.Schema, output_rows: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Merge partial aggregates into groups with the types that Spark expects.

    Parameters
    ----------
    compiled : Compiled
    output : pyarrow.Schema
    output_rows : int
        Most rows of an output batch.
    batches : iterator of RecordBatch
        Rows of :func:`blobs_of`.
    """
    groups = merged_groups(compiled.query(), compiled.by_side())
    for table in tables_of(batches):
        groups.add(table)
    yield from in_batches(groups.finish(), output, output_rows)
