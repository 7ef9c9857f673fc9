"""Rows of every type as DataFrames, and batch joins of them beside penstock.sql."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from functools import cache

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

import penstock
from penstock.spark_bridge import sql

SCHEMA = spark_types.StructType(
    [
        spark_types.StructField("id", spark_types.LongType(), nullable=False),
        spark_types.StructField("t", spark_types.IntegerType()),
        spark_types.StructField("at", spark_types.TimestampType()),
        spark_types.StructField("wall", spark_types.TimestampNTZType()),
        spark_types.StructField("day", spark_types.DateType()),
        spark_types.StructField("x", spark_types.ShortType()),
        spark_types.StructField("y", spark_types.IntegerType()),
        spark_types.StructField("price", spark_types.DecimalType(9, 2)),
        spark_types.StructField("f", spark_types.DoubleType()),
        spark_types.StructField("name", spark_types.StringType()),
        spark_types.StructField("raw", spark_types.BinaryType()),
        spark_types.StructField("ok", spark_types.BooleanType()),
    ]
)

EPOCH = datetime.datetime(1970, 1, 1)
#: Clocks went back here in the session's zone: 05:30 and 06:30 UTC are both 1:30 on the wall.
AUTUMN = datetime.datetime(2023, 11, 5, 4, 0)


def rows_of(seed: int, count: int) -> list[tuple]:
    """Random rows with many ties, exact duplicates and NULLs; a third of the times in one spot."""
    rng = np.random.default_rng(seed)

    def sometimes(value):
        return None if rng.random() < 0.1 else value

    rows = []
    for i in range(count):
        t = int(rng.integers(100, 104) if rng.random() < 0.3 else rng.integers(0, 300))
        moment = AUTUMN + datetime.timedelta(minutes=t, microseconds=int(rng.integers(0, 3)))
        rows.append(
            (
                i // 2 * 2 if rng.random() < 0.2 else i,
                sometimes(t),
                sometimes(moment.replace(tzinfo=datetime.UTC)),
                sometimes(moment),
                sometimes(datetime.date(1969, 12, 1) + datetime.timedelta(days=t // 5)),
                sometimes(int(rng.integers(-30, 30))),
                sometimes(int(rng.integers(-30, 30))),
                sometimes(Decimal(int(rng.integers(-500, 500))) / 100),
                sometimes(float(rng.integers(-50, 50)) / 8),
                sometimes("ab"[: rng.integers(0, 3)] + "éz"[: rng.integers(0, 3)]),
                sometimes(bytes(rng.integers(0, 2, 2, dtype=np.uint8))),
                sometimes(bool(rng.integers(0, 2))),
            )
        )
    return rows


LAYOUTS = {
    "one partition": lambda frame: frame.coalesce(1),
    "two partitions": lambda frame: frame.repartition(2),
    "seven partitions": lambda frame: frame.repartition(7),
    "empty partitions": lambda frame: frame.repartitionById(6, F.col("y") % 2 * 2 + 2),
    "all in one of five": lambda frame: frame.repartitionById(5, F.lit(3)),
}


@cache
def as_read(frame: DataFrame) -> pa.Table:
    """Rows of a DataFrame, read once."""
    return frame.toArrow()


def check(spark, query, frames, *, lanes=None, **options):
    """Same rows and, after Spark's own naming of types, same types as penstock.sql."""
    joined = sql(spark, query, frames, lanes=lanes, **options)
    tables = {name: as_read(frame) for name, frame in frames.items()}
    zone = spark.conf.get("spark.sql.session.timeZone")
    expected = penstock.sql(query, tables, time_zone=zone, **options)
    got = joined.toArrow()
    assert got.schema.names == expected.schema.names
    assert counted(got.cast(expected.schema)) == counted(expected)
    return expected.num_rows


def counted(table: pa.Table) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@cache
def _timed(frame: DataFrame) -> DataFrame:
    return frame.filter("t IS NOT NULL").cache()


def timed(frames: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """Frames without rows that have no time; the same for the same frames."""
    return {name: _timed(frame) for name, frame in frames.items()}


MANHATTAN = (
    "SELECT a.id AS i, b.id AS j, a.name, b.price, a.x - b.x AS dx FROM a JOIN b "
    "ON abs(a.x - b.x) + abs(a.y - b.y) < 12 AND b.t BETWEEN a.t - 20 AND a.t + 20"
)
