"""Ways to call the batch join, and what explain says of them."""

from __future__ import annotations

from collections import Counter

import pytest

import penstock

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F

from penstock.errors import PenstockError, QueryError, UsageError
from penstock.spark_bridge import explain, join, sql
from tests.spark_bridge.kit.batch import MANHATTAN, as_read, counted


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
    "kind",
    [
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("outer", "left_outer", "leftanti")),
        "FullOuter",
        "cross",
    ],
)
def test_kinds_are_spelled_as_in_spark(spark, laid_out, kind):
    frames = laid_out("two partitions")
    condition = "l.x = r.x AND abs(l.t - r.t) <= 5"
    found = join(frames["a"], frames["b"], on=condition, time="t", how=kind, lanes=1)
    on = F.expr(condition)
    left, right = frames["a"].alias("l"), frames["b"].alias("r")
    wanted = left.join(right, on, "inner" if kind == "cross" else kind)
    assert Counter(map(tuple, found.collect())) == Counter(map(tuple, wanted.collect()))


def test_columns_that_are_equal(spark, laid_out):
    """They stand once, in every kind of join, with a window and without, as in Spark."""
    a, b = (one.withColumnRenamed("x", "k`x") for one in laid_out("two partitions").values())
    for how in ("inner", "left", "right", "full", "semi", "anti"):
        wanted = a.join(b, ["k`x"], how)
        for window in ({"time": "t", "within": 5, "lanes": 1}, {}):
            found = join(a, b, on=["k`x"], how=how, **window)
            names = [name.removeprefix("l_").removeprefix("r_") for name in found.columns]
            assert names == wanted.columns
    found, wanted = join(a, b, on=["k`x"], how="full"), a.join(b, ["k`x"], "full")
    assert Counter(map(tuple, found.collect())) == Counter(map(tuple, wanted.collect()))
    with pytest.raises(UsageError, match="not a Column: write the expression as SQL"):
        join(a, b, on=F.col("x") == 1, time="t", within=5)


NULLS = (
    "a.id, b.id AS j, a.x, b.x AS y, a.id + b.id AS s, abs(a.id) AS m, a.x IS NULL AS n, "
    "CASE WHEN a.id > 1 THEN 1 ELSE 2 END AS c, a.id % 2 AS r, sqrt(a.f) AS f, 1 AS one"
)
GROUPS = "a.id, a.x, count(*) AS n, sum(b.id) AS s, count(a.x) + 1 AS m, min(b.x) AS y"


@pytest.mark.parametrize(
    "text",
    [
        *(
            pytest.param(f"SELECT {NULLS} FROM a {kind} JOIN b", marks=pytest.mark.slow)
            for kind in ("", "RIGHT", "FULL")
        ),
        pytest.param("SELECT a.id, a.x FROM a LEFT SEMI JOIN b", marks=pytest.mark.slow),
        f"SELECT {NULLS} FROM a LEFT JOIN b",
        f"SELECT {GROUPS} FROM a JOIN b",
    ],
)
def test_columns_are_not_null_where_spark_says_so(spark, text):
    rows = spark.range(9).selectExpr("id", "if(id % 3 = 0, NULL, id) AS x", "id * 1D AS f")
    text += " ON abs(a.id - b.id) < 4 AND b.id >= a.id"
    text += " GROUP BY a.id, a.x" if GROUPS in text else ""
    found = sql(spark, text, {"a": rows, "b": rows}, time={"a": "id", "b": "id"}, lanes=1)
    in_spark = text.replace("FROM a", "FROM {a} a").replace("JOIN b", "JOIN {b} b")
    wanted = spark.sql(in_spark, a=rows, b=rows)
    assert [(one.name, one.nullable) for one in found.schema] == [
        (one.name, one.nullable) for one in wanted.schema
    ]
    assert Counter(map(tuple, found.collect())) == Counter(map(tuple, wanted.collect()))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.id, b.x, a.f FROM a LEFT JOIN b ON a.f <= b.f AND a.x < b.id",
        "SELECT * FROM (SELECT a.id, b.id AS j FROM a JOIN b ON a.f < b.x) WHERE j > 1",
        "SELECT a.id, count(*) AS n, max(b.id) AS m FROM a JOIN b ON a.f < b.x GROUP BY a.id",
    ],
)
def test_without_a_window_as_in_spark_over_views(spark, text):
    """Tables that are not given are the session's views; rows and schema are Spark's."""
    rows = spark.range(9).selectExpr("id", "if(id % 3 = 0, NULL, id) AS x", "id * 1D AS f")
    for name in "ab":
        rows.createOrReplaceTempView(name)
    try:
        found, wanted = sql(spark, text), spark.sql(text)
        assert found.schema == wanted.schema
        assert Counter(map(tuple, found.collect())) == Counter(map(tuple, wanted.collect()))
        assert "Penstock" in explain(spark, text)
    finally:
        for name in "ab":
            spark.catalog.dropTempView(name)


def test_tables_of_the_catalog(spark):
    spark.sql("CREATE DATABASE places")
    spark.range(6).selectExpr("id", "id AS t").write.saveAsTable("places.points")
    spark.range(3).selectExpr("id", "id AS t").write.saveAsTable("places.few")
    spark.range(9).selectExpr("id", "id AS t").createOrReplaceTempView("`far points`")
    on = "ON a.id < b.id AND b.t BETWEEN a.t AND a.t + 1"
    named = "WITH b AS (SELECT * FROM places.points WHERE id > 4) SELECT b.id FROM b a JOIN b"
    options = {"time": {"a": "t", "b": "t"}}
    given = spark.range(3, 5).selectExpr("id", "id AS t")
    try:
        for text, tables, wanted in [
            (
                f"SELECT b.id FROM places.points a JOIN `far points` b {on}",
                None,
                [1, 2, 3, 4, 5, 6],
            ),
            (f"SELECT b.id FROM spark_catalog.places.POINTS a JOIN b {on}", {"b": given}, [3, 4]),
            # What is given comes first, by its name or alias, and a name of WITH before a table's.
            (f"SELECT b.id FROM `far points` a JOIN x b {on}", {"a": given, "X": given}, [4]),
            (f"{named} {on}", None, []),
            (
                f"SELECT b.id FROM places.points a JOIN spark_catalog.places.few b {on}",
                None,
                [1, 2],
            ),
        ]:
            found = sql(spark, text, tables, **options)
            assert sorted(row[0] for row in found.collect()) == wanted, text
        for name, said in [
            (
                "nowhere",
                "unknown table nowhere: the tables given are b; the session has .*far points",
            ),
            ("places.b", "there are two tables named b: write another name .*`places`.`b`"),
            ("places.c", r"unknown table c: .*line 1, column 18: places.c"),
            ("places.few c JOIN nope", r"unknown table nope: .*line 1, column 36"),
            ("`x; DROP TABLE places.points`", "unknown table x; DROP"),
        ]:
            with pytest.raises(QueryError, match=said):
                sql(spark, f"SELECT b.id FROM {name} a JOIN b {on}", {"b": given}, **options)
        assert spark.table("places.points").count() == 6
    finally:
        spark.sql("DROP DATABASE places CASCADE")
        spark.catalog.dropTempView("far points")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"how": "lefty"}, "how must be one of inner, cross, left"),
        ({"on": 7}, "on takes a condition as text.* not a int"),
        ({"on": []}, "on takes a condition as text"),
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
        "arithmetic   exact; beyond SMALLINT Spark wraps, or raises in ANSI mode: `a.x - b.x`",
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
