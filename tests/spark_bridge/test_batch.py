"""The batch join against penstock.sql on the same rows, however they are partitioned."""

from __future__ import annotations

from decimal import Decimal

import pytest

import penstock

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from penstock.spark_bridge import explain, sql
from tests.host.kit.serving import serving
from tests.penstock.kit.devices import InterpretingCpu
from tests.spark_bridge.kit.batch import LAYOUTS, MANHATTAN, SCHEMA, as_read, check, counted, timed

#: Layouts of the short run.
FEW = ("two partitions", "all in one of five")


@pytest.mark.parametrize(
    ("layout", "lanes"),
    [
        pytest.param(layout, lanes, marks=() if layout in FEW else pytest.mark.slow)
        for layout, lanes in zip(LAYOUTS, [1, 2, 5, 5, 3], strict=True)
    ],
)
def test_every_partitioning(spark, laid_out, layout, lanes):
    frames = laid_out(layout)
    assert check(spark, MANHATTAN, frames, lanes=lanes, time={"a": "t", "b": "t"}) > 100


def test_workers_share_the_device_of_a_server(spark, laid_out):
    frames, time = laid_out("two partitions"), {"a": "t", "b": "t"}
    with serving({"cpu": InterpretingCpu(2)}) as server:
        options = {"address": str(server.address)}
        joined = sql(
            spark, MANHATTAN, frames, lanes=3, time=time, device="remote", device_options=options
        )
        got = joined.toArrow()
        assert server.owners["cpu"].counters["tasks"] > 1
    tables = {name: as_read(frame) for name, frame in frames.items()}
    expected = penstock.sql(MANHATTAN, tables, time=time)
    assert counted(got.cast(expected.schema)) == counted(expected)


TIMES = {"t": {"a": "t", "b": "t"}, "at": {"a": "at", "b": "at"}}

WINDOWS = {
    "equal times": ("t", "b.t = a.t AND a.x < b.x"),
    "asymmetric": ("t", "b.t BETWEEN a.t - 3 AND a.t + 40 AND a.x < b.x"),
    "offset after": ("t", "b.t BETWEEN a.t + 30 AND a.t + 45 AND a.x < b.x"),
    "offset before": ("t", "b.t BETWEEN a.t - 45 AND a.t - 30 AND a.x < b.x"),
    "unbounded before": ("t", "b.t <= a.t + 5 AND abs(a.x - b.x) < 3"),
    "unbounded after": ("t", "b.t >= a.t + 5 AND abs(a.x - b.x) < 3"),
    "bounds beyond 64 bits": ("t", "b.t BETWEEN a.t - 3 AND a.t + 9223372036854775807 AND a.x = 2"),
    "per-row slack": ("t", "b.t BETWEEN a.t - a.id AND a.t + a.id AND a.id < 40"),
    "instants": ("at", "b.at BETWEEN a.at - INTERVAL 7 MINUTES AND a.at AND a.x <> b.x"),
    "microseconds": ("at", "b.at BETWEEN a.at - INTERVAL 1 MICROSECOND AND a.at"),
}


#: Those of the short run.
SHORT = ("asymmetric", "offset before", "bounds beyond 64 bits", "instants")


@pytest.mark.parametrize(
    "window",
    [pytest.param(one, marks=() if one in SHORT else pytest.mark.slow) for one in WINDOWS],
)
def test_windows(spark, laid_out, window):
    time, on = WINDOWS[window]
    query = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {on}"
    frames = laid_out("two partitions")
    assert check(spark, query, frames, lanes=4, time=TIMES[time]) > 0


@pytest.mark.parametrize(
    ("left", "right", "bound"),
    [
        pytest.param("wall", "wall", "INTERVAL 9 MINUTES", marks=pytest.mark.slow),
        pytest.param("day", "day", "INTERVAL 2 DAYS", marks=pytest.mark.slow),
        ("day", "at", "INTERVAL 19667 DAYS"),
        pytest.param("wall", "day", "INTERVAL 19667 DAYS", marks=pytest.mark.slow),
    ],
)
def test_kinds_of_time(spark, laid_out, left, right, bound):
    query = (
        f"SELECT a.id AS i, b.id AS j, a.{left} AS u, b.{right} AS v FROM a JOIN b "
        f"ON b.{right} BETWEEN a.{left} - {bound} AND a.{left} + {bound} AND a.x > b.y + 20"
    )
    frames = laid_out("two partitions")
    assert check(spark, query, frames, lanes=3, time={"a": left, "b": right}) > 0


@pytest.mark.parametrize(
    ("layout", "lanes"),
    [("one partition", 1), pytest.param("seven partitions", 5, marks=pytest.mark.slow)],
)
def test_rows_windows(spark, laid_out, layout, lanes):
    frames = timed(laid_out(layout))
    query = "SELECT a.id AS i, b.id AS j FROM a [ROWS 9], b [ROWS 30] WHERE a.x < b.y AND b.x > -20"
    time = {"a": "t", "b": "t"}
    assert check(spark, query, frames, lanes=lanes, time=time) > 100
    if lanes > 1:
        assert f"{lanes} lanes: segments" in explain(spark, query, frames, lanes=lanes, time=time)


def test_a_self_join(spark, laid_out):
    query = (
        "SELECT p.id AS i, q.id AS j FROM a p JOIN a q ON abs(p.x - q.x) < 3 AND p.id < q.id "
        "AND q.t BETWEEN p.t - 10 AND p.t + 10"
    )
    frames = {"a": laid_out("two partitions")["a"]}
    assert check(spark, query, frames, lanes=3, time={"p": "t", "q": "t"}) > 0


def test_a_time_computed_in_a_subquery(spark, laid_out):
    query = (
        "SELECT a.id AS i, b.id AS j FROM (SELECT id, 2 * t + 3 AS u FROM a WHERE x > 0) a JOIN "
        "(SELECT id, abs(t - 100) AS v FROM b) b ON b.v BETWEEN a.u - 5 AND a.u + 5"
    )
    frames = laid_out("two partitions")
    assert check(spark, query, frames, lanes=4, time={"a": "u", "b": "v"}) > 0


def test_params_within_and_scale(spark, laid_out):
    query = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON abs(a.f - b.f) <= near"
    options = {"params": {"near": Decimal("0.5")}, "within": 4, "scale": {"a.f": 3, "b.f": 3}}
    frames = laid_out("two partitions")
    assert check(spark, query, frames, lanes=2, time={"a": "t", "b": "t"}, **options) > 0


@pytest.mark.parametrize(
    ("empty", "lanes"),
    [
        pytest.param("a", None, marks=pytest.mark.slow),
        pytest.param("b", 3, marks=pytest.mark.slow),
        ("ab", 3),
    ],
)
def test_empty_tables(spark, laid_out, empty, lanes):
    frames = dict(laid_out("one partition"))
    frames |= {name: spark.createDataFrame([], SCHEMA) for name in empty}
    assert check(spark, MANHATTAN, frames, lanes=lanes, time={"a": "t", "b": "t"}) == 0


def test_all_rows_at_one_time(spark):
    frames = {
        name: spark.range(50).select("id", F.lit(7).alias("t")).repartition(3).cache()
        for name in "ab"
    }
    query = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.t = b.t AND a.id < b.id"
    assert check(spark, query, frames, lanes=4, time={"a": "t", "b": "t"}) == 50 * 49 // 2


def test_times_at_the_ends_of_64_bits(spark):
    ends = [-(1 << 63), -(1 << 63) + 1, -1, 0, 1, (1 << 63) - 2, (1 << 63) - 1]
    frame = spark.createDataFrame([(i, t) for i, t in enumerate(ends * 3)], "id int, t long")
    query = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON b.t BETWEEN a.t - 1 AND a.t + 1"
    frames = {"a": frame, "b": frame}
    assert check(spark, query, frames, lanes=4, time={"a": "t", "b": "t"}) == 9 * 15


@pytest.mark.slow
def test_against_sparks_own_join(spark, laid_out):
    frames = laid_out("seven partitions")
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    joined = sql(spark, MANHATTAN, frames, time={"a": "t", "b": "t"}, lanes=4)
    expected = spark.sql(MANHATTAN).withColumn("dx", F.col("dx").cast("long"))
    assert expected.count() > 100
    assertDataFrameEqual(joined, expected)


@pytest.mark.slow
def test_the_result_is_an_ordinary_dataframe(spark, laid_out):
    frames = laid_out("seven partitions")
    joined = sql(spark, MANHATTAN, frames, time={"a": "t", "b": "t"}, lanes=4)
    by_row = joined.groupBy("i").count().filter("count > 2")
    assert by_row.join(joined, "i").count() > by_row.count() > 0
