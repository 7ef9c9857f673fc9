"""A theta join of streams as Spark runs it itself, by equal constants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import sqrt
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.spark.streams import PROVIDER, THETA, agree, pairs_of, points, seconds, source

_PARTITIONS = "spark.sql.shuffle.partitions"


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
            agree(found_pairs(spark, folder / str(rows)), pairs_of(*sides), "Spark")
            if best[0] and took > most_s:
                return best
            best = rows, took, rows * rows / took
            growth = min(2.0, sqrt(0.9 * most_s / took))
            if growth < 1.1:
                return best
            rows = int(rows * growth)


def found_pairs(spark: SparkSession, folder: Path) -> int:
    """Pairs in a query's output."""
    return spark.read.schema("a int, b int").parquet(str(folder / "output")).count()
