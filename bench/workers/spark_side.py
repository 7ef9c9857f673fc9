"""The same groups in Spark Structured Streaming: files of a micro-batch each, two cores.

As its best user would have it: only the columns that the query reads, a partition per core, the
better of both state stores, and results that go nowhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.spark import runs
from bench.spark.native import settings
from bench.spark.streams import ROCKSDB, run, source
from bench.workers.jobs import Job
from penstock.errors import PenstockError

CORES = 2
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STORES = {"Spark, default state store": None, "Spark, RocksDB": ROCKSDB}


@contextmanager
def session() -> Iterator[SparkSession]:
    """A session of two cores in this process."""
    spark = runs.session(CORES)
    # RocksDB writes changes then, not snapshots, with each micro-batch.
    spark.conf.set(_CHANGELOG, "true")
    try:
        yield spark
    finally:
        spark.stop()


def rates(spark: SparkSession, job: Job, batches: int) -> Iterator[tuple[str, float]]:
    """Rows per second with each state store, one after the other.

    Parameters
    ----------
    job : Job
        Its rows of the first worker come in micro-batches.
    batches : int
        Micro-batches; the first, in which all starts, does not count.

    Yields
    ------
    (str, float)
        Name and rate.

    Raises
    ------
    PenstockError
        Spark has another number of groups than there are.
    """
    rows = pa.Table.from_batches(job.batches(0))
    size = -(-rows.num_rows // batches)
    parts = [rows.slice(first, size) for first in range(0, rows.num_rows, size)]
    groups = len(job.by_hand(job.arrays(rows.to_batches())))
    for who, store in STORES.items():
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
            settings(spark, provider=store, partitions=str(CORES)),
        ):
            frame = source(spark, Path(name, "rows"), parts, _ddl(job))
            writer = _grouped(job, frame).writeStream.format("noop").outputMode("append")
            progress = run(writer, Path(name, "to")).recentProgress
        took = [p["durationMs"]["triggerExecution"] / 1000 for p in progress]
        kept = max(p["stateOperators"][0]["numRowsTotal"] for p in progress)
        if kept != groups:
            raise PenstockError(f"{who} keeps {kept} groups, and there are {groups}")
        yield who, size / median(took[1 : len(parts)])


def _grouped(job: Job, frame: DataFrame) -> DataFrame:
    frame = frame.withWatermark("t", "0 seconds")
    if job.where:
        frame = frame.where(job.where)
    window = F.window("t", f"{job.window_s} seconds")
    grouped = frame.groupBy(job.key, window).agg(F.expr(job.aggregate).alias("value"))
    return grouped.select(job.key, F.col("window.start").alias("w"), "value")


def _ddl(job: Job) -> str:
    kinds = {pa.int64(): "long", pa.int8(): "byte"}
    return ", ".join(f"{own.name} {kinds.get(own.type, 'timestamp')}" for own in job.schema)
