"""The same in Spark Structured Streaming: files of a micro-batch each, two cores.

As its best user would have it: only the columns that the query reads, a partition per core, the
better of both state stores, and results that go nowhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
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
from bench.workers.joins import JoinJob
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


def rates(spark: SparkSession, job: Job | JoinJob, batches: int) -> Iterator[tuple[str, float]]:
    """Rows per second with each state store, one after the other.

    Parameters
    ----------
    job : Job or JoinJob
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
        Spark keeps other state than there is.
    """
    given = job.tables(0)
    parts = {name: _cut(rows, batches) for name, rows in given.items()}
    expected = _kept(job, given)
    for who, store in STORES.items():
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
            settings(spark, provider=store, partitions=str(CORES)),
        ):
            frames = {
                stream: source(spark, Path(name, stream), own, _ddl(job.schemas[stream]))
                for stream, own in parts.items()
            }
            # What has no window leaves as it changes.
            mode = "update" if job.is_table else "append"
            writer = _query(job, frames).writeStream.format("noop").outputMode(mode)
            progress = run(writer, Path(name, "to")).recentProgress
        took = [p["durationMs"]["triggerExecution"] / 1000 for p in progress]
        kept = max(p["stateOperators"][0]["numRowsTotal"] for p in progress)
        if kept != expected:
            raise PenstockError(f"{who} keeps {kept} rows of state, and there are {expected}")
        size = sum(own[0].num_rows for own in parts.values())
        yield who, size / median(took[1:batches])


def _cut(rows: pa.Table, batches: int) -> list[pa.Table]:
    size = -(-rows.num_rows // batches)
    return [rows.slice(first, size) for first in range(0, rows.num_rows, size)]


def _kept(job: Job | JoinJob, given: Mapping[str, pa.Table]) -> int:
    """Rows of state at the end: no window closes before it."""
    if isinstance(job, Job):
        return len(job.by_hand(job.arrays(given[job.stream].to_batches())))
    stream, sellers = given.values()
    return len(sellers) if job.is_by_session else len(stream) + len(sellers)


def _query(job: Job | JoinJob, frames: Mapping[str, DataFrame]) -> DataFrame:
    if isinstance(job, Job):
        return _grouped(job, frames[job.stream])
    stream, sellers = (frame.withWatermark("t", "0 seconds") for frame in frames.values())
    if job.is_by_session:
        return _sessions(stream, sellers, job.gap_s)
    window = F.window("t", f"{job.window_s} seconds")
    return stream.select("seller", "id", window.alias("w")).join(
        sellers.select(F.col("id").alias("seller"), window.alias("w")), ["seller", "w"]
    )


def _sessions(bids: DataFrame, sellers: DataFrame, gap_s: int) -> DataFrame:
    """Sessions of both sides' rows together: Spark joins none, so rows are grouped and unpacked."""
    none = F.lit(None)
    rows = bids.select(
        "seller",
        "t",
        F.struct("auction", "price", "t").alias("bid"),
        none.cast("timestamp").alias("since"),
    )
    since = sellers.select(
        F.col("id").alias("seller"),
        "t",
        none.cast(rows.schema["bid"].dataType).alias("bid"),
        F.col("t").alias("since"),
    )
    grouped = rows.union(since).groupBy("seller", F.session_window("t", f"{gap_s} seconds"))
    both = grouped.agg(F.collect_list("bid").alias("bids"), F.collect_list("since").alias("all"))
    pairs = both.select("seller", F.explode("bids").alias("bid"), "all")
    return pairs.select("seller", "bid", F.explode("all").alias("since"))


def _grouped(job: Job, frame: DataFrame) -> DataFrame:
    value = F.expr(job.aggregate).alias("value")
    if job.is_table:
        return frame.groupBy(job.key).agg(value)
    frame = frame.withWatermark("t", "0 seconds")
    if job.where:
        frame = frame.where(job.where)
    window = F.window("t", f"{job.window_s} seconds")
    grouped = frame.groupBy(job.key, window).agg(value)
    return grouped.select(job.key, F.col("window.start").alias("w"), "value")


def _ddl(schema: pa.Schema) -> str:
    kinds = {pa.int64(): "long", pa.int8(): "byte", pa.float32(): "float"}
    return ", ".join(f"{own.name} {kinds.get(own.type, 'timestamp')}" for own in schema)
