"""What cannot be joined is refused on the call; what a row breaks is said by Spark's error."""

from __future__ import annotations

import re

import pytest

from penstock.errors import DeviceError, QueryError, SchemaError, UsageError

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.errors import AnalysisException, NumberFormatException, PythonException
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as F

from penstock.host.devices.cpu import CpuDevice
from penstock.spark_bridge import sql


@pytest.fixture(scope="module")
def unread(spark):
    """Tables that fail when a job reads them."""
    fails = F.raise_error(F.concat(F.lit("row read: "), F.col("id").cast("string")))
    frame = spark.range(3).select(
        "id",
        F.when(F.col("id") >= 0, fails.cast("int")).otherwise(0).alias("t"),
        F.lit("a").alias("name"),
        F.array(F.lit(1)).alias("tags"),
        F.collate(F.lit("b"), "UNICODE_CI").alias("folded"),
    )
    return {"a": frame, "b": frame}


ON = "FROM a JOIN b ON b.t BETWEEN a.t - 1 AND a.t + 1"

REFUSED = {
    "unknown column": (f"SELECT a.nme {ON}", {}, QueryError, "did you mean name"),
    "no window": ("SELECT a.id FROM a JOIN b ON a.id < b.id", {}, QueryError, "no window"),
    "one table": (
        "SELECT name, count(*) FROM a GROUP BY name",
        {"time": None},
        QueryError,
        "the query has one: group it in Spark itself",
    ),
    "sessions": (
        "SELECT a.id FROM a JOIN b ON a.id = b.id AND session_window(a.t, 5) = "
        "session_window(b.t, 5)",
        {},
        QueryError,
        "session_window in a join is not for Spark's bridge",
    ),
    "not SQL": ("SELECT FROM WHERE", {}, QueryError, "not SQL"),
    "unknown table": ("SELECT c.id FROM a JOIN c ON a.t = c.t", {}, QueryError, "unknown table c"),
    "a star with a collation": (
        f"SELECT a.* {ON}",
        {},
        SchemaError,
        "a.folded has Spark type string collate",
    ),
    "a collation": (
        f"SELECT a.id {ON} WHERE a.folded = 'B'",
        {},
        SchemaError,
        "string collate UNICODE_CI",
    ),
    "too many digits": (
        f"SELECT a.id * a.id * b.id AS w {ON}",
        {},
        QueryError,
        "column w may need 57 digits, and Spark's decimals have 38; CAST it",
    ),
    "ROWS without time": (
        "SELECT a.id FROM a [ROWS 2], b [ROWS 2] WHERE a.id < b.id",
        {"time": None},
        QueryError,
        "name the time column",
    ),
    "unknown device": (f"SELECT a.id {ON}", {"device": "abacus"}, DeviceError, "named 'abacus'"),
    "an open device": (
        f"SELECT a.id {ON}",
        {"device": CpuDevice(threads=1)},
        UsageError,
        "device must be a name",
    ),
    "a partitioning": (
        f"SELECT a.id {ON}",
        {"partitioning": "hash"},
        UsageError,
        "partitioning must be one of auto, rows, time, grid, keys, not 'hash'",
    ),
    "a grid of ROWS": (
        "SELECT a.id FROM a [ROWS 2], b [ROWS 2] WHERE a.id < b.id",
        {"partitioning": "grid"},
        UsageError,
        "a ROWS window is over rows in order of time",
    ),
    "cutting a computed time": (
        "SELECT a.id FROM (SELECT id, abs(t) AS u FROM a) a JOIN b ON a.u = b.t",
        {"partitioning": "time", "time": {"a": "u", "b": "t"}},
        UsageError,
        "compute it with withColumn",
    ),
    "no lanes": (f"SELECT a.id {ON}", {"lanes": 0}, UsageError, "lanes must be 1 or more, not 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_any_job(spark, unread, case):
    query, options, error, message = REFUSED[case]
    options = {"time": {"a": "t", "b": "t"}} | options
    with pytest.raises(error, match=message) as raised:
        sql(spark, query, unread, **options)
    assert "\n" not in str(raised.value)


def test_only_the_refusal_is_said(spark, unread, monkeypatch):
    """Spark's analysis, by which it is known, is not in the log, which has that of other texts."""
    logged = []
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    monkeypatch.setattr(logger, "handle", logged.append)
    text = f"SELECT a.id, foo(b.id) AS f {ON}"
    with pytest.raises(QueryError, match=r"function foo is not supported .*: FOO\(b\.id\)"):
        sql(spark, text, unread)
    assert not logged
    with pytest.raises(AnalysisException):
        spark.sql("SELECT foo(1)")
    assert logged


WRONG = "CAST(concat('x', b.id) AS int)"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param(
            f"SELECT a.id, {WRONG} AS n {ON}", "`a join b`.`b.id`", marks=pytest.mark.slow
        ),
        (f"SELECT a.id {ON} AND {WRONG} < a.id", "`cast(concat('x', b.id)"),
    ],
)
def test_errors_of_spark_have_the_words_of_the_query(spark, text, named):
    rows = spark.range(3).selectExpr("id", "cast(id AS int) AS t")
    with pytest.raises(NumberFormatException) as raised:
        sql(spark, text, {"a": rows, "b": rows}, time={"a": "t", "b": "t"}).collect()
    said = str(raised.value)
    assert named in said
    assert not re.search(r"part_\d|`c\d+`|computed_\d", said)


def test_unused_columns_of_any_type(spark):
    frame = spark.range(3).select("id", F.array(F.lit(1)).alias("tags"), F.lit(1).alias("twice"))
    frame = frame.withColumn("t", F.col("id")).select("*", F.lit(2).alias("twice"))
    tables = {"a": frame, "b": frame}
    joined = sql(spark, f"SELECT a.id {ON}", tables, time={"a": "t", "b": "t"})
    assert joined.count() == 7
    with pytest.raises(SchemaError, match="table a has 2 columns named twice"):
        sql(spark, f"SELECT a.twice {ON}", tables, time={"a": "t", "b": "t"})


def test_tables_that_are_none(spark, unread):
    query = f"SELECT a.id {ON}"
    with pytest.raises(UsageError, match="no table or view named nowhere \\(the session has "):
        sql(spark, query, {"a": "nowhere", "b": unread["b"]})
    with pytest.raises(UsageError, match="table b is a list; give a Spark DataFrame"):
        sql(spark, query, {"a": unread["a"], "b": [1]})
    stream = (
        spark.readStream.format("rate").load().selectExpr("value AS id", "cast(value AS int) t")
    )
    with pytest.raises(QueryError, match="write bounds on time into ON; leave time= out"):
        sql(spark, query, {"a": unread["a"], "b": stream}, time={"a": "t", "b": "t"})


def test_a_row_without_time_has_no_place_in_rows(spark):
    times = spark.createDataFrame([(1, 10), (2, None), (3, 30)], "id int, t int")
    tables = {"a": times, "b": times}
    query = "SELECT a.id FROM a [ROWS 2], b [ROWS 2] WHERE a.id < b.id"
    joined = sql(spark, query, tables, time={"a": "t", "b": "t"})
    with pytest.raises(PythonException, match=r"penstock.errors.DataError: row 1 of a has no time"):
        joined.collect()


def test_a_device_that_cannot_be_opened(spark):
    frame = spark.range(3).withColumn("t", F.col("id"))
    options = {"time": {"a": "t", "b": "t"}, "device_options": {"threads": 0}}
    joined = sql(spark, f"SELECT a.id {ON}", {"a": frame, "b": frame}, **options)
    with pytest.raises(PythonException, match="UsageError: device cpu needs at least one thread"):
        joined.collect()
