"""Arrays, structs and maps pass through joins of DataFrames; elements have Spark's values."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F

import penstock
from penstock.errors import SchemaError
from penstock.spark_bridge import join, relation, sql, stream
from tests.kit.nested import TIME, nested_table, select
from tests.spark_bridge.kit.settings import setting
from tests.spark_bridge.kit.streams import stream_of, written

NEAR = "a.k = b.k AND b.t BETWEEN a.t - INTERVAL 20 SECONDS AND a.t + INTERVAL 20 SECONDS"
#: Of Spark alone: times in the session's zone, decimals, and what is never NULL.
MORE = {
    "times": "array(t)",
    "by_id": "map(id, named_struct('at', t, 'y', 'x'))",
    "prices": "array(1.5BD)",
    "gap": "array(cast(interval '2' hour as interval day to second))",
    "maps": "array(m)",
}


@pytest.fixture(scope="module")
def frames(spark):
    def framed(seed: int, first: int):
        rows = nested_table(seed, 60, first, dictionaries=False).drop_columns(
            ["pair", "long", "nones"]
        )
        rows = rows.take(list(range(rows.num_rows)))  # Spark takes no slices with maps
        frame = spark.createDataFrame(rows).withColumn("t", F.timestamp_seconds("t"))
        return frame.withColumns({name: F.expr(e) for name, e in MORE.items()}).cache()

    return {"lt": framed(1, 0), "rt": framed(2, 1000)}


def rows_of(frame) -> Counter:
    return Counter(map(repr, frame.toArrow().to_pylist()))


def by_spark(spark, frames, how: str, names: str):
    text = f"SELECT {names} FROM {{lt}} a {how} JOIN {{rt}} b ON {NEAR}"
    return spark.sql(text, **frames)


def all_of(frames) -> str:
    return ", ".join(f"{s}.{c} AS {s}_{c}" for s in "ab" for c in frames["lt"].columns)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "FULL"])
def test_batch(spark, frames, how):
    expected = by_spark(spark, frames, how, all_of(frames))
    found = sql(spark, select("*", how, NEAR), frames, time=TIME, lanes=2)
    assert found.schema.simpleString() == expected.schema.simpleString()
    wanted = rows_of(expected)
    assert rows_of(found) == wanted
    assert wanted.total() > 20


@pytest.mark.slow
def test_select_star_of_join(spark, frames):
    on = NEAR.replace("a.", "l.").replace("b.", "r.")
    found = frames["lt"].transform(join, frames["rt"], on=on, time="t", select="*")
    assert Counter(map(repr, map(tuple, found.collect()))) == Counter(
        map(repr, map(tuple, by_spark(spark, frames, "", all_of(frames)).collect()))
    )


def test_places_of_rows_with_maps(spark, frames):
    text = select("a.id, a.m, b.maps, b.none", "", "a.k = b.k")
    tables = {name: frame.toArrow() for name, frame in frames.items()}
    expected = penstock.sql(text, tables, time=TIME, rows=5)
    found = sql(spark, text, frames, time=TIME, rows=5)
    assert rows_of(found) == Counter(map(repr, expected.to_pylist()))


def test_what_is_not_carried(spark, frames):
    folded = frames["lt"].withColumn("s", F.array(F.collate(F.lit("b"), "UNICODE_CI")))
    with pytest.raises(SchemaError, match=r"a\.s has Spark type array<string collate"):
        sql(spark, select("a.s", "", NEAR), {**frames, "lt": folded}, time=TIME)


#: Also without ANSI mode, where these may be out of range.
VALUES = [
    *("a.pos.x", "a.tags[1]", "a.ns[a.k]", "a.ns[a.k - 2]", "get(a.ns, 1)", "a.m['z']"),
    *("element_at(a.ns, -1)", "element_at(a.ns, 2)", "try_element_at(a.ns, 1)"),
    *("element_at(a.m, 'a')", "try_element_at(a.m, 'q')", "map_contains_key(a.m, 'a')"),
    *("a.deep.ls[0].m[2].y", "array_contains(a.tags, 'x')", "array_contains(a.ns, a.k)"),
    *("array_position(a.ns, 1)", "array_max(a.ns)", "array_min(a.ns)", "a.ns IS NULL"),
    *("arrays_overlap(a.ns, b.ns)", "coalesce(a.ns, b.ns)", "sort_array(a.ns)"),
    *("sort_array(a.ns, false)", "array_sort(a.ns)", "map_keys(a.m)", "map_values(a.m)"),
]
#: NULL of NULL is what ANSI mode says.
SIZES = ["size(a.tags)", "size(a.m)", "cardinality(a.ns)"]


@pytest.mark.parametrize(("ansi", "values"), [("false", VALUES), ("true", SIZES)])
def test_values(spark, frames, ansi, values):
    given = {name: frame.drop(*MORE) for name, frame in frames.items()}
    names = "a.id AS ai, b.id AS bi, " + ", ".join(f"{v} AS c{n}" for n, v in enumerate(values))
    with setting(spark, "spark.sql.ansi.enabled", ansi):
        expected = by_spark(spark, given, "", names).toArrow().to_pylist()
        theirs = sql(spark, select(names, "", NEAR), given, time=TIME).toArrow().to_pylist()
    tables = {name: frame.toArrow() for name, frame in given.items()}
    ours = penstock.sql(select(names, "", NEAR), tables, time=TIME).to_pylist()
    for n, value in enumerate(values):
        wanted = in_order(expected, f"c{n}")
        assert (value, in_order(ours, f"c{n}")) == (value, wanted)
        assert (value, in_order(theirs, f"c{n}")) == (value, wanted)


def in_order(rows: list[dict], name: str) -> list:
    return [row[name] for row in sorted(rows, key=lambda row: (row["ai"], row["bi"]))]


def test_conditions_of_elements(spark, frames):
    condition = "a.pos.x = b.pos.x AND array_contains(a.tags, 'x')"
    found = sql(spark, select("a.id, b.m", "", f"{NEAR} AND {condition}"), frames, time=TIME)
    expected = by_spark(spark, frames, "", "a.id, b.m, " + condition + " AS c").filter("c")
    assert rows_of(found) == rows_of(expected.drop("c"))


def test_spark_compares_what_stands_around(spark, frames):
    found = sql(
        spark, select("a.ns AS v, count(*) AS n", "", NEAR) + " GROUP BY a.ns", frames, time=TIME
    )
    expected = by_spark(spark, frames, "", "a.ns AS v").groupBy("v").agg(F.count("*").alias("n"))
    assert rows_of(found) == rows_of(expected)


@pytest.mark.slow
def test_a_relation(spark, frames, tmp_path):
    relation(spark, frames["rt"].drop("t"), str(tmp_path / "r"), key="k")
    given = {"lt": frames["lt"], "rt": penstock.relation(tmp_path / "r")}
    on = "a.k = b.k AND a.id % 7 = b.id % 7"
    names = "a.id AS ai, b.id AS bi, a.m, a.by_id, b.deep, b.gap AS bg, b.times AS bt, b.none"
    found = sql(spark, select(names, "LEFT", on), given)
    text = f"SELECT {names} FROM {{lt}} a LEFT JOIN {{rt}} b ON {on}"
    assert rows_of(found) == rows_of(spark.sql(text, **frames))


@pytest.mark.slow
def test_streams(spark, frames, tmp_path):
    # Parquet has no columns of nothing but NULL, nor intervals in arrays.
    given = {name: frame.drop("none", "gap") for name, frame in frames.items()}
    streams = {}
    for name, frame in given.items():
        rows = frame.toArrow().sort_by("t")
        end = frame.limit(1).withColumn("t", F.timestamp_seconds(F.lit(10**6)))
        end = end.withColumn("id", F.lit(-1).cast("long")).toArrow()
        parts = [rows.slice(0, 30), rows.slice(30), end]
        streams[name] = stream_of(spark, written(tmp_path / name, parts), frame.schema, "5 seconds")
    joined = stream(spark, select("*", "LEFT", NEAR), streams, lanes=1)
    out = str(tmp_path / "out")
    writer = joined.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start(out).awaitTermination(240)
    found = spark.read.schema(joined.schema).parquet(out).filter("a_id >= 0").drop("batch")
    expected = by_spark(spark, given, "LEFT", all_of(given))
    assert rows_of(found) == rows_of(expected)
