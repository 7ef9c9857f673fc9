"""Queries in the session's time zone, against Spark itself in that zone."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.errors import QueryError, UsageError
from penstock.plan.plan import plan
from penstock.query.compiler import compile_select
from penstock.query.join_window import NoWindowError
from penstock.query.options import QueryOptions
from penstock.spark_bridge import explain, sql
from tests.penstock.kit.clocks import ZONES, Clocks, table
from tests.spark_bridge.kit.settings import setting

ZONE = "spark.sql.session.timeZone"
DDL = "id long, k int, t timestamp, n timestamp_ntz, d date"
NEW_YORK = "America/New_York"
#: Windows that a zone makes longer, in part.
WINDOWS = [
    "r.t BETWEEN l.t AND l.t + INTERVAL 1 DAY",
    "abs(r.t - l.t) < INTERVAL 90 MINUTES",
    "r.n BETWEEN l.t - INTERVAL 2 HOURS AND l.t + INTERVAL 30 HOURS",
]
ON_KEY = {"time": {"l": "k", "r": "k"}, "within": 1}


def views(spark, zone: str, seed: int, rows: int) -> dict[str, pa.Table]:
    """Two tables around the zone's transitions, which are views of the session, too."""
    random = Random(f"{seed} {zone}")
    tables = {name: table(random, zone, rows) for name in "lr"}
    for name, own in tables.items():
        spark.createDataFrame(own, DDL).createOrReplaceTempView(name)
    return tables


def known_of(tables: dict[str, pa.Table], side: str, column: str) -> set[int]:
    """Ids of rows with a time."""
    return {row["id"] for row in tables[side].to_pylist() if row[column] is not None}


def has_window(query: str, tables: dict[str, pa.Table], zone: str, how: dict) -> bool:
    try:
        schemas = {name: table.schema for name, table in tables.items()}
        plan(compile_select(query, schemas, QueryOptions(time_zone=zone, **how)))
    except NoWindowError:
        return False
    return True


def conditions_agree(spark, zone: str, seed: int, count: int) -> Counter:
    """Random conditions give Spark's pairs, over a window of all rows and over windows of times."""
    tables = views(spark, zone, seed, 24)
    grammar = Clocks(Random(f"{zone} {seed}"), zone)
    texts = [*WINDOWS, *(grammar.condition() for _ in range(count))]
    texts += [f"{grammar.filter('l')} AND {grammar.condition()}" for _ in range(count // 3)]
    values = ", ".join(f"({text}) AS c{k}" for k, text in enumerate(texts))
    truth = spark.sql(f"SELECT l.id AS a, r.id AS b, {values} FROM l CROSS JOIN r").toArrow()
    told: Counter = Counter()
    for k, text in enumerate(texts):
        pairs = truth.filter(truth.column(f"c{k}").fill_null(False)).select(["a", "b"])
        wanted = {(row["a"], row["b"]) for row in pairs.to_pylist()}
        for left, right in ("kk", "tt", "tn", "nt", "nd", "td", "dt", "nn"):
            how = {"time": {"l": left, "r": right}, "within": 1 if left == "k" else None}
            query = f"SELECT l.id AS a, r.id AS b FROM l JOIN r ON {text}"
            try:
                found = penstock.sql(query, tables, time_zone=zone, **how)
            except QueryError as error:
                if left != "k" and "no window" in str(error):
                    continue  # the condition says nothing about these times
                raise
            timed = known_of(tables, "l", left), known_of(tables, "r", right)
            expected = {(a, b) for a, b in wanted if a in timed[0] and b in timed[1]}
            if not has_window(query, tables, zone, how):
                expected = wanted  # an equality alone asks nothing of the times
            assert {(row["a"], row["b"]) for row in found.to_pylist()} == expected, (
                zone,
                text,
                how,
            )
            told[left] += 1
    return told


def values_agree(spark, zone: str, seed: int, count: int) -> None:
    """Random expressions have Spark's values and types."""
    tables = views(spark, zone, seed, 40)
    grammar = Clocks(Random(f"{zone} {seed} values"), zone)
    texts = [grammar.time("l", 3) for _ in range(count)]
    texts += [f"({grammar.time('l', 2)} - {grammar.time('l', 2)})" for _ in range(count // 3)]
    values = ", ".join(f"{text} AS c{k}" for k, text in enumerate(texts))
    truth = spark.sql(f"SELECT l.id AS a, {values} FROM l").toArrow().sort_by("a")
    other = {"r": pa.table({"k": pa.array([0], pa.int32())})}
    query = f"SELECT l.id AS a, {values} FROM l JOIN r ON TRUE"
    found = penstock.sql(query, {**tables, **other}, time_zone=zone, **ON_KEY).sort_by("a")
    for k, text in enumerate(texts):
        wanted, got = truth.column(f"c{k}"), found.column(f"c{k}")
        if pa.types.is_timestamp(wanted.type):
            assert (wanted.type.tz is None) == (got.type.tz is None), (zone, text)
        assert got.cast(wanted.type).equals(wanted), (zone, text)


#: Zones and queries of the short run.
SHORT = (NEW_YORK, "Pacific/Apia", "literal", "days", "hours")


@pytest.mark.parametrize(
    "zone", [pytest.param(one, marks=() if one in SHORT else pytest.mark.slow) for one in ZONES]
)
def test_random_expressions(spark, zone):
    with setting(spark, ZONE, zone):
        told = conditions_agree(spark, zone, 1, 12)
        values_agree(spark, zone, 1, 12)
    assert told["t"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_many_random_expressions(spark, zone):
    with setting(spark, ZONE, zone):
        for seed in range(2, 12):
            conditions_agree(spark, zone, seed, 40)
            values_agree(spark, zone, seed, 40)


QUERIES = {
    "literal": "SELECT l.id, r.id AS o FROM l JOIN r ON {near} "
    "AND l.t > timestamp'2024-03-10 01:02:00'",
    "dates": "SELECT l.id, r.id AS o FROM l JOIN r ON {near} "
    "AND cast(l.t AS date) = cast(r.t AS date)",
    "kinds": "SELECT l.id, r.id AS o FROM l JOIN r ON {near} AND l.t > r.n",
    "days": "SELECT date_trunc('day', l.t) AS day, count(*) AS c FROM l JOIN r ON {near} "
    "GROUP BY date_trunc('day', l.t)",
    "hours": "SELECT date_trunc('hour', l.n) AS h, max(r.t + INTERVAL 1 DAY) AS m FROM l JOIN r "
    "ON {near} GROUP BY date_trunc('hour', l.n)",
    "windows": "SELECT window(l.t, '1 day').start AS w, count(*) AS c FROM l JOIN r ON {near} "
    "GROUP BY window(l.t, '1 day')",
    "dates' windows": "SELECT window(l.d, '6 hours').end AS w, count(*) AS c FROM l JOIN r "
    "ON {near} GROUP BY window(l.d, '6 hours')",
}  # fmt: skip
NEAR = "r.t BETWEEN l.t - INTERVAL 90 MINUTES AND l.t + INTERVAL 1 DAY"


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in SHORT else pytest.mark.slow) for one in QUERIES]
)
def test_queries_give_the_rows_of_spark(spark, name):
    """What was wrong in New York, by way of the bridge, in lanes."""
    with setting(spark, ZONE, NEW_YORK):
        views(spark, NEW_YORK, 3, 90)
        query = QUERIES[name].format(near=NEAR)
        truth = spark.sql(query)
        joined = sql(spark, query, {"l": "l", "r": "r"}, time={"l": "t", "r": "t"}, lanes=3)
        assert [f.dataType for f in joined.schema] == [f.dataType for f in truth.schema]
        found, wanted = joined.toArrow(), truth.toArrow()
    assert wanted.num_rows > 3
    assert Counter(map(repr, found.to_pylist())) == Counter(map(repr, wanted.to_pylist()))


def test_times_of_two_kinds(spark):
    with setting(spark, ZONE, NEW_YORK):
        views(spark, NEW_YORK, 5, 90)
        query = "SELECT l.id, r.id AS o FROM l JOIN r ON r.n BETWEEN l.t AND l.t + INTERVAL 2 HOURS"
        how = {"time": {"l": "t", "r": "n"}, "lanes": 3}
        found = sql(spark, query, {"l": "l", "r": "r"}, **how).toArrow()
        wanted = spark.sql(query).toArrow()
    assert wanted.num_rows > 50
    assert Counter(map(repr, found.to_pylist())) == Counter(map(repr, wanted.to_pylist()))


def test_explain(spark):
    views(spark, NEW_YORK, 6, 60)
    counts = {}
    for zone in (NEW_YORK, "Asia/Kolkata"):
        with setting(spark, ZONE, zone):
            query = QUERIES["literal"].format(near=NEAR)
            text = explain(spark, query, {"l": "l", "r": "r"}, time={"l": "t", "r": "t"})
            assert f"time zone    {zone}, spark.sql.session.timeZone" in text
            counts[zone] = spark.sql(query).count()
    assert counts[NEW_YORK] != counts["Asia/Kolkata"]


def test_another_meaning_of_timestamp(spark):
    views(spark, NEW_YORK, 7, 5)
    with setting(spark, "spark.sql.timestampType", "TIMESTAMP_NTZ"):
        tables, time = {"l": spark.table("l"), "r": spark.table("r")}, {"l": "t", "r": "t"}
        with pytest.raises(UsageError, match="write TIMESTAMP_NTZ or TIMESTAMP_LTZ"):
            sql(spark, QUERIES["literal"].format(near=NEAR), tables, time=time)
        sql(spark, QUERIES["dates"].format(near=NEAR), tables, time=time, lanes=1)
