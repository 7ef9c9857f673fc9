"""Columns of batch joins: those that come out, those that filter, and odd names."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from penstock.spark_bridge import sql
from tests.spark_bridge.kit.batch import MANHATTAN, check
from tests.spark_bridge.kit.settings import setting

SELECTS = {
    "everything": "*",
    "one side": "b.name, b.raw",
    "computed": (
        "a.price - b.price AS dp, a.x * b.y AS xy, a.f + b.f AS f, b.at - a.at AS apart, "
        "a.at + INTERVAL 1 DAY AS next, a.wall + INTERVAL 1 DAY AS tomorrow, a.day + 1 AS d, "
        "a.id * b.id AS big, a.ok AND b.ok AS both, NULL AS nothing"
    ),
}


@pytest.mark.parametrize(
    "select",
    [
        pytest.param(one, marks=() if one in ("everything", "computed") else pytest.mark.slow)
        for one in SELECTS
    ],
)
def test_output_columns(spark, laid_out, select):
    query = (
        f"SELECT {SELECTS[select]} FROM a JOIN b ON b.t BETWEEN a.t - 2 AND a.t + 2 "
        "AND (a.name = b.name OR a.raw = b.raw AND a.ok OR a.price > b.price + 3.5)"
    )
    frames = laid_out("two partitions")
    assert check(spark, query, frames, lanes=2, time={"a": "t", "b": "t"}) > 100


def test_spark_types_of_the_output(spark, laid_out):
    select = SELECTS["computed"]
    query = f"SELECT {select} FROM a JOIN b ON a.t = b.t"
    joined = sql(spark, query, laid_out("one partition"), time={"a": "t", "b": "t"})
    assert {f.name: f.dataType.simpleString() for f in joined.schema} == {
        "dp": "decimal(10,2)",
        "xy": "bigint",
        "f": "double",
        "apart": "interval day to second",
        "next": "timestamp",
        "tomorrow": "timestamp_ntz",
        "d": "date",
        "big": "decimal(38,0)",
        "both": "boolean",
        "nothing": "void",
    }


FILTERS = {
    "exact in Spark": "a.x >= 0 AND (b.y <> 3 OR b.y IS NULL) AND a.name = 'ab'",
    "arithmetic": "a.x * 1000000000 > 0 AND b.y - 5 < 0",
    "mixed": "NOT (a.ok AND a.x > 0) AND b.id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 200)",
    "unknown": "a.x > NULL",
}


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(one, marks=() if one in ("exact in Spark", "mixed") else pytest.mark.slow)
        for one in FILTERS
    ],
)
def test_filters(spark, laid_out, where):
    query = (
        "SELECT a.id AS i, b.id AS j FROM a JOIN b ON b.t BETWEEN a.t - 20 AND a.t + 20 "
        f"WHERE {FILTERS[where]}"
    )
    frames = laid_out("two partitions")
    # Beyond INT, arithmetic is an error in ANSI mode, and exact without it.
    with setting(spark, "spark.sql.ansi.enabled", str(where != "arithmetic").lower()):
        found = check(spark, query, frames, lanes=2, time={"a": "t", "b": "t"})
    assert (found == 0) == (where == "unknown")


def test_odd_column_names(spark):
    frame = spark.range(20).toDF("a.b").withColumn("T", F.col("`a.b`") % 5)
    frame = frame.withColumn("the `t`", F.col("T"))
    query = "SELECT l.`a.b` AS i, r.t AS j FROM l JOIN r ON l.T = r.T AND l.`a.b` < r.`a.b`"
    assert check(spark, query, {"l": frame, "r": frame}, lanes=2, time={"l": "T", "r": "T"}) > 0


def test_names_of_views(spark, laid_out):
    frames = laid_out("one partition")
    frames["a"].createOrReplaceTempView("rides")
    options = {"time": {"a": "t", "b": "t"}}
    by_name = sql(spark, MANHATTAN, {"a": "rides", "b": frames["b"]}, **options)
    assertDataFrameEqual(by_name, sql(spark, MANHATTAN, frames, **options))
