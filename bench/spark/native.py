"""Joins of streams that Spark runs itself: equal constants for a theta join, and equal keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import sqrt
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.spark.streams import PROVIDER, ROCKSDB, THETA, agree, pairs_of, points, seconds, source
from penstock.spark_bridge.streaming import stream

_PARTITIONS = "spark.sql.shuffle.partitions"
KEYED = "n int, t timestamp, k int"
#: Seconds to both sides within which rows of equal keys join, and different keys.
WITHIN_S, KEYS = 5, 10_000
#: Rows per second of event time and side: some 10 rows of 10,000 have the same key in a window.
PER_SECOND = 10_000
_BEGIN_US = 1_700_000_000_000_000


@contextmanager
def settings(spark: SparkSession, **values: str | None) -> Iterator[None]:
    """Settings for a while; None for Spark's own default."""
    names = {"provider": PROVIDER, "partitions": _PARTITIONS}
    before = {names[key]: spark.conf.get(names[key], None) for key in values}
    wanted = {names[key]: value for key, value in values.items()}
    try:
        _set(spark, wanted)
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def equal_constants(
    spark: SparkSession, folder: Path, most_s: float, provider: str | None = None
) -> tuple[int, float, float]:
    """Spark's work-around, at about the largest size that it finishes in some seconds.

    One key is one partition whatever is set, so there is one: more would only add empty tasks.
    The state store is Spark's default unless one is named; RocksDB is some ten times slower here.

    Returns
    -------
    (int, float, float)
        Rows of either side, seconds, evaluations per second.
    """
    rows, best = 2000, (0, 0.0, 0.0)
    with settings(spark, provider=provider, partitions="1"):
        while True:
            sides = [points(seed, rows) for seed in (1, 2)]
            frames = [
                source(spark, folder / f"{rows}{s}", [part]).selectExpr("1 AS k", "*").alias(s)
                for s, part in zip("ab", sides, strict=True)
            ]
            both = frames[0].join(frames[1], on=F.expr(f"a.k = b.k AND {THETA}"))
            writer = both.selectExpr("a.n AS a", "b.n AS b").writeStream.format("parquet")
            (took,) = seconds(writer, folder / str(rows))
            agree(_count(spark, folder / str(rows)), pairs_of(*sides), "Spark")
            if best[0] and took > most_s:
                return best
            best = rows, took, rows * rows / took
            growth = min(2.0, sqrt(0.9 * most_s / took))
            if growth < 1.1:
                return best
            rows = int(rows * growth)


def equal_keys(
    spark: SparkSession, folder: Path, who: str, rows: int, batches: int
) -> tuple[float, int]:
    """An interval join of equal keys, which Spark runs itself: rows per second of both sides.

    Parameters
    ----------
    who : str
        "default" or "rocksdb" for Spark with that state store, "files" for Penstock.
    rows : int
        Of both sides, per micro-batch.

    Returns
    -------
    (float, int)
        Rows per second, and pairs.
    """
    parts = {side: _keyed(seed, rows // 2, batches) for seed, side in enumerate("ab")}
    frames = {
        side: source(spark, folder / side, own, KEYED).withWatermark("t", "1 second")
        for side, own in parts.items()
    }
    on = (
        f"a.k = b.k AND b.t BETWEEN a.t - INTERVAL {WITHIN_S} SECONDS "
        f"AND a.t + INTERVAL {WITHIN_S} SECONDS"
    )
    provider = ROCKSDB if who == "rocksdb" else None
    # A partition for each core, as it is best for a stream with state.
    cores = str(spark.sparkContext.defaultParallelism)
    with settings(spark, provider=provider, partitions=cores):
        took = seconds(_keyed_writer(spark, frames, on, who), folder)
    found = _count(spark, folder)
    agree(found, _keyed_pairs(parts), who)
    # The first micro-batch starts workers; the last has no new rows with Spark's own.
    return rows / median(took[1:batches]), found


def _keyed_writer(spark: SparkSession, frames: dict[str, DataFrame], on: str, who: str):
    if who == "files":
        text = f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {on}"
        return stream(spark, text, frames).writeStream.format("parquet")
    both = frames["a"].alias("a").join(frames["b"].alias("b"), on=F.expr(on))
    return both.selectExpr("a.n AS a", "b.n AS b").writeStream.format("parquet")


def _keyed(seed: int, rows: int, batches: int) -> list[pa.Table]:
    """Rows in order of time with random keys, a part per micro-batch."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(batches):
        number = np.arange(k * rows, (k + 1) * rows)
        # Spark's watermark begins at 1970, so that a row of that moment would be late.
        time = pa.array(_BEGIN_US + number * (1_000_000 // PER_SECOND), pa.timestamp("us", "UTC"))
        keys = rng.integers(0, KEYS, rows).astype(np.int32)
        found.append(pa.table({"n": number.astype(np.int32), "t": time, "k": keys}))
    return found


def _keyed_pairs(parts: dict[str, list[pa.Table]]) -> int:
    """Pairs of equal keys within the interval."""
    sides = {}
    span = WITHIN_S * PER_SECOND
    most = 1 << 40
    for side, own in parts.items():
        whole = pa.concat_tables(own)
        number, key = (whole.column(c).to_numpy().astype(np.int64) for c in ("n", "k"))
        sides[side] = key * most + number
    window = np.sort(sides["b"])
    ends = (np.searchsorted(window, sides["a"] + by) for by in (-span, span + 1))
    low, high = ends
    return int((high - low).sum())


def _count(spark: SparkSession, folder: Path) -> int:
    return spark.read.schema("a int, b int").parquet(str(folder / "output")).count()
