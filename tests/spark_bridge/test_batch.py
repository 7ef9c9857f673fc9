"""The batch join against penstock.sql on the same rows, however they are partitioned."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.testing import assertDataFrameEqual

from penstock.errors import PenstockError
from penstock.spark_bridge import explain, join, sql
from tests.host.kit.serving import serving
from tests.penstock.kit.devices import InterpretingCpu

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


@pytest.fixture(scope="module")
def laid_out(spark):
    """Both inputs in a layout. Cached, since the order of rows must not change between reads."""
    made = {}

    def make(layout: str):
        if layout not in made:
            made[layout] = {
                name: LAYOUTS[layout](spark.createDataFrame(rows_of(seed, count), SCHEMA)).cache()
                for name, seed, count in (("a", 1, 400), ("b", 2, 300))
            }
        return made[layout]

    return make


#: Rows of DataFrames that were read before.
_read: dict[int, pa.Table] = {}


def as_read(frame) -> pa.Table:
    if id(frame) not in _read:
        _read[id(frame)] = frame.toArrow()
    return _read[id(frame)]


def check(spark, query, frames, *, lanes=None, **options):
    """Same rows and, after Spark's own naming of types, same types as penstock.sql."""
    joined = sql(spark, query, frames, lanes=lanes, **options)
    tables = {name: as_read(frame) for name, frame in frames.items()}
    expected = penstock.sql(query, tables, **options)
    got = joined.toArrow()
    assert got.schema.names == expected.schema.names
    assert counted(got.cast(expected.schema)) == counted(expected)
    return expected.num_rows


def counted(table: pa.Table) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


MANHATTAN = (
    "SELECT a.id AS i, b.id AS j, a.name, b.price, a.x - b.x AS dx FROM a JOIN b "
    "ON abs(a.x - b.x) + abs(a.y - b.y) < 12 AND b.t BETWEEN a.t - 20 AND a.t + 20"
)


@pytest.mark.parametrize(("layout", "lanes"), list(zip(LAYOUTS, [1, 2, 5, 5, 3], strict=True)))
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


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(spark, laid_out, window):
    time, on = WINDOWS[window]
    query = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {on}"
    frames = laid_out("two partitions")
    assert check(spark, query, frames, lanes=4, time=TIMES[time]) > 0


@pytest.mark.parametrize(
    ("left", "right", "bound"),
    [
        ("wall", "wall", "INTERVAL 9 MINUTES"),
        ("day", "day", "INTERVAL 2 DAYS"),
        ("day", "at", "INTERVAL 19667 DAYS"),
        ("wall", "day", "INTERVAL 19667 DAYS"),
    ],
)
def test_kinds_of_time(spark, laid_out, left, right, bound):
    query = (
        f"SELECT a.id AS i, b.id AS j, a.{left} AS u, b.{right} AS v FROM a JOIN b "
        f"ON b.{right} BETWEEN a.{left} - {bound} AND a.{left} + {bound} AND a.x > b.y + 20"
    )
    frames = laid_out("two partitions")
    assert check(spark, query, frames, lanes=3, time={"a": left, "b": right}) > 0


@pytest.mark.parametrize(("layout", "lanes"), [("one partition", 1), ("seven partitions", 5)])
def test_rows_windows(spark, laid_out, layout, lanes):
    frames = timed(laid_out(layout))
    query = "SELECT a.id AS i, b.id AS j FROM a [ROWS 9], b [ROWS 30] WHERE a.x < b.y AND b.x > -20"
    time = {"a": "t", "b": "t"}
    assert check(spark, query, frames, lanes=lanes, time=time) > 100
    if lanes > 1:
        assert f"{lanes} lanes: segments" in explain(spark, query, frames, lanes=lanes, time=time)


#: Frames without rows that have no time, by what they were made of.
_timed: dict[int, dict] = {}


def timed(frames):
    key = id(frames["a"])
    if key not in _timed:
        _timed[key] = {
            name: frame.filter("t IS NOT NULL").cache() for name, frame in frames.items()
        }
    return _timed[key]


WINDOW = "b.t BETWEEN a.t - 20 AND a.t + 10 AND abs(a.x - b.x) < 3"
KINDS = {
    "left": ("a.id AS i, b.id AS j, b.name", "LEFT JOIN", f"{WINDOW} AND a.y > 0", ""),
    "right": ("a.id AS i, b.id AS j, a.at", "RIGHT JOIN", WINDOW, ""),
    "full": ("a.id AS i, b.id AS j", "FULL JOIN", f"{WINDOW} AND b.y > 0 AND a.y > 0", ""),
    "semi": ("a.id AS i, a.price", "LEFT SEMI JOIN", WINDOW, ""),
    "anti": ("a.id AS i, a.name", "LEFT ANTI JOIN", WINDOW, ""),
    "anti, open": ("a.id AS i", "LEFT ANTI JOIN", "b.t >= a.t AND a.x > b.x + 20", ""),
    "folded": (
        "a.name, count(*) AS n, sum(b.price) AS s, avg(b.f) AS m, max(a.x - b.x) AS x, "
        "min(b.at) AS first, min_by(b.id, abs(a.y - b.y)) AS near",
        "JOIN",
        WINDOW,
        " GROUP BY a.name",
    ),
    "of both": (
        "a.x AS ax, b.name AS bn, count(*) AS n, sum(a.y * b.y) AS s",
        "JOIN",
        WINDOW,
        " GROUP BY a.x, b.name HAVING count(*) > 1",
    ),
    "tumbling": (
        "window.start AS begins, count(*) AS n, min(b.f) AS f",
        "JOIN",
        "b.at BETWEEN a.at - INTERVAL 9 MINUTES AND a.at",
        " GROUP BY window(a.at, '30 minutes')",
    ),
    "one group": ("count(*) AS n, max(b.x) AS m, max_by(b.name, b.id) AS w", "JOIN", WINDOW, ""),
    "an empty group": ("count(*) AS n, max(b.x) AS m", "JOIN", f"{WINDOW} AND a.x > 99", ""),
    "distinct": ("DISTINCT b.x", "JOIN", WINDOW, ""),
}
CUTS = ((2, "grid"), (5, "time"), (1, "auto"), (4, "auto"))


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_and_groups(spark, laid_out, kind):
    """Every kind in one way; the slow test has all of them."""
    cut = CUTS[list(KINDS).index(kind) % 2]
    check_kind(spark, laid_out("two partitions"), kind, *cut)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["seven partitions", "empty partitions"])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_and_groups_in_every_way(spark, laid_out, kind, layout):
    for cut in CUTS:
        check_kind(spark, laid_out(layout), kind, *cut)


def check_kind(spark, frames, kind, lanes, partitioning):
    select, word, on, rest = KINDS[kind]
    column = "at" if kind == "tumbling" else "t"
    query = f"SELECT {select} FROM a {word} b ON {on}{rest}"
    time = {"a": column, "b": column}
    joined = sql(spark, query, frames, lanes=lanes, partitioning=partitioning, time=time)
    tables = {name: as_read(frame) for name, frame in frames.items()}
    expected = penstock.sql(query, tables, time=time)
    got = joined.toArrow()
    assert got.schema.names == expected.schema.names
    assert rounded(got.cast(expected.schema)) == rounded(expected)
    assert expected.num_rows > 0


def rounded(table: pa.Table) -> Counter:
    """Rows, with floats that may have been added up in another order."""

    def plain(value):
        return round(value, 9) if isinstance(value, float) else value

    return Counter(tuple(map(plain, row)) for row in counted(table).elements())


ROWS_KINDS = {
    "FULL JOIN": "a.id AS i, b.id AS j",
    "LEFT ANTI JOIN": "a.id AS i",
    "JOIN": "a.x, count(*) AS n, min_by(b.id, abs(a.y - b.y)) AS near",
}


@pytest.mark.parametrize("kind", ROWS_KINDS)
def test_kinds_of_rows(spark, laid_out, kind):
    frames = timed(laid_out("two partitions"))
    by = " GROUP BY a.x" if kind == "JOIN" else ""
    query = f"SELECT {ROWS_KINDS[kind]} FROM a {kind} b ON abs(a.x - b.x) < 4 AND a.y < 20{by}"
    options = {"time": {"a": "t", "b": "t"}, "rows": {"a": 12, "b": 7}}
    assert check(spark, query, frames, lanes=4, **options) > 0


def test_a_self_join(spark, laid_out):
    query = (
        "SELECT p.id AS i, q.id AS j FROM a p JOIN a q ON abs(p.x - q.x) < 3 AND p.id < q.id "
        "AND q.t BETWEEN p.t - 10 AND p.t + 10"
    )
    frames = {"a": laid_out("two partitions")["a"]}
    assert check(spark, query, frames, lanes=3, time={"p": "t", "q": "t"}) > 0


SELECTS = {
    "everything": "*",
    "one side": "b.name, b.raw",
    "computed": (
        "a.price - b.price AS dp, a.x * b.y AS xy, a.f + b.f AS f, b.at - a.at AS apart, "
        "a.at + INTERVAL 1 DAY AS next, a.wall + INTERVAL 1 DAY AS tomorrow, a.day + 1 AS d, "
        "a.id * b.id AS big, a.ok AND b.ok AS both, NULL AS nothing"
    ),
}


@pytest.mark.parametrize("select", SELECTS)
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


@pytest.mark.parametrize("where", FILTERS)
def test_filters(spark, laid_out, where):
    query = (
        "SELECT a.id AS i, b.id AS j FROM a JOIN b ON b.t BETWEEN a.t - 20 AND a.t + 20 "
        f"WHERE {FILTERS[where]}"
    )
    frames = laid_out("two partitions")
    found = check(spark, query, frames, lanes=2, time={"a": "t", "b": "t"})
    assert (found == 0) == (where == "unknown")


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


@pytest.mark.parametrize(("empty", "lanes"), [("a", None), ("b", 3), ("ab", 3)])
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


def test_against_sparks_own_join(spark, laid_out):
    frames = laid_out("seven partitions")
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    joined = sql(spark, MANHATTAN, frames, time={"a": "t", "b": "t"}, lanes=4)
    expected = spark.sql(MANHATTAN).withColumn("dx", F.col("dx").cast("long"))
    assert expected.count() > 100
    assertDataFrameEqual(joined, expected)


def test_the_result_is_an_ordinary_dataframe(spark, laid_out):
    frames = laid_out("seven partitions")
    joined = sql(spark, MANHATTAN, frames, time={"a": "t", "b": "t"}, lanes=4)
    by_row = joined.groupBy("i").count().filter("count > 2")
    assert by_row.join(joined, "i").count() > by_row.count() > 0


def test_join_as_a_transformation(spark, laid_out):
    frames = laid_out("two partitions")
    query = (
        "SELECT l.id AS i, r.id AS j FROM l LEFT JOIN r ON abs(l.x - r.x) < 3 "
        "AND r.t BETWEEN l.t - 5 AND l.t + 5"
    )
    made = frames["a"].transform(
        join,
        frames["b"],
        on="abs(l.x - r.x) < 3",
        time="t",
        within=5,
        how="left",
        select="l.id AS i, r.id AS j",
        lanes=3,
    )
    tables = {"l": as_read(frames["a"]), "r": as_read(frames["b"])}
    expected = penstock.sql(query, tables, time={"l": "t", "r": "t"})
    assert counted(made.toArrow().cast(expected.schema)) == counted(expected)
    semi = join(
        frames["a"],
        frames["b"],
        on="p.x = q.y",
        rows=(3, 4),
        time=("t", "t"),
        how="semi",
        names=("p", "q"),
        lanes=1,
    )
    assert semi.columns == frames["a"].columns


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"how": "outer"}, "how must be one of inner, left"),
        ({"names": ("a b", "c")}, "names must be two different identifiers"),
        ({"on": "l.nothing = 1"}, "nothing"),
    ],
)
def test_what_join_refuses(spark, laid_out, wrong, message):
    frames = laid_out("two partitions")
    with pytest.raises(PenstockError, match=message):
        join(frames["a"], frames["b"], time="t", within=5, **wrong)


def test_explain(spark, laid_out, monkeypatch):
    frames, time = laid_out("two partitions"), {"a": "t", "b": "t"}
    text = explain(spark, MANHATTAN, frames, time=time, lanes=4)
    for line in (
        "window       -20 <= right.time - left.time <= 20",
        "4 slices of a's time with about the same work",
        "rows of a are held, those of b stream past them",
        "a probes b: band, 2 tests",
        "cpu, since the call, spark.penstock.device and PENSTOCK_DEVICE name none",
    ):
        assert line in text
    pairs = float(text.split("evaluations  about ")[1].split(" pairs")[0])
    tables = {name: as_read(frame) for name, frame in frames.items()}
    count = "SELECT count(*) AS n FROM a JOIN b ON b.t BETWEEN a.t - 20 AND a.t + 20"
    known = penstock.sql(count, tables, time=time).column("n")[0].as_py()
    assert pairs == pytest.approx(known, rel=0.25)
    monkeypatch.setenv(
        "PENSTOCK_DEVICE", "remote?address=unix:///nowhere/penstock.sock&connect_s=1"
    )
    spark.conf.set("spark.penstock.device.fallback", "cpu")
    try:
        text = explain(spark, MANHATTAN, frames, time=time, lanes=1)
    finally:
        spark.conf.unset("spark.penstock.device.fallback")
    assert "1 lane: one lane was asked for" in text
    assert "remote, by PENSTOCK_DEVICE" in text
    assert "here it cannot be opened, and a task like that gets cpu" in text


def test_the_example_of_the_docs(spark, capsys):
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    example = text.split("```python\n")[1].split("```")[0]
    names: dict = {}
    exec(compile(example, "docs/spark.md", "exec"), names)
    assert sorted(map(tuple, names["near"].collect())) == [(1, 7), (2, 9)]
    assert "vehicle" in capsys.readouterr().out
