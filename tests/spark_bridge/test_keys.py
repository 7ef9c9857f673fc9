"""Batch joins whose lanes own keys, with skewed and NULL keys, against DuckDB on the same SQL."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import UsageError
from penstock.spark_bridge import explain, sql
from tests.spark_bridge.kit.duck import by_duckdb

TIME = {"a": "t", "b": "t"}
WINDOW = "b.t BETWEEN a.t - 40 AND a.t + 25"


def table_of(seed: int, count: int, skew: float) -> pa.Table:
    """Rows with a frequent key, and NULL in a tenth of each column but ``id``."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, 41.0) ** -skew

    def column(values, dtype):
        return pa.array(values, dtype, mask=rng.random(count) < 0.1)

    key, text = rng.choice(40, (2, count), p=shares / shares.sum())
    return pa.table(
        {
            "id": pa.array(np.arange(count), pa.int64()),
            "t": column(rng.integers(0, 400, count), pa.int64()),
            "k": column(key, pa.int32()),
            "s": column([f"ä{each}" for each in text], pa.string()),
            "x": column(rng.integers(0, 50, count), pa.int32()),
        }
    )  # fmt: skip


#: Of b the first has fewer rows, the second more of the frequent keys.
TABLES = {"a": table_of(1, 700, 1.1), "b": table_of(2, 500, 1.6)}


@pytest.fixture(scope="module")
def frames(spark):
    return {
        name: spark.createDataFrame(rows).repartition(3).cache() for name, rows in TABLES.items()
    }


@contextmanager
def settings_of(spark, **values):
    """Settings of routing, for a while."""
    for name, value in values.items():
        spark.conf.set(f"spark.penstock.routing.{name}", value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(f"spark.penstock.routing.{name}")


def wanted(query: str) -> Counter:
    return as_counter(by_duckdb(query, TABLES))


def as_counter(rows: pa.Table) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def got(spark, query, frames, lanes, partitioning="keys") -> Counter:
    made = sql(spark, query, frames, time=TIME, lanes=lanes, partitioning=partitioning)
    return as_counter(made.toArrow())


KINDS = {
    "JOIN": "a.id AS i, b.id AS j, a.s",
    "LEFT JOIN": "a.id AS i, b.id AS j",
    "RIGHT JOIN": "a.id AS i, b.id AS j",
    "FULL JOIN": "a.id AS i, b.id AS j, b.x",
    "LEFT SEMI JOIN": "a.id AS i, a.k",
    "LEFT ANTI JOIN": "a.id AS i, a.s",
}
#: Each kind has some of the lanes, planners and conditions; together they have all.
WAYS = [
    (5, "mnrt", "a.k = b.k"),
    (2, "qmmp", "a.s = b.s"),
    (8, "hash", "a.k + 1 = b.k AND a.x < b.x"),
    (5, "mnrt", "abs(a.x - b.x) <= 3 AND a.s <> b.s"),
    (5, "qmmp", "abs(CAST(a.x AS DOUBLE) * 0.5 - b.x) <= 2.5"),
]


#: Kinds of the short run.
SHORT = ("JOIN", "LEFT JOIN")


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=() if one in SHORT else pytest.mark.slow) for one in KINDS]
)
def test_every_kind(spark, frames, kind):
    place = list(KINDS).index(kind)
    for lanes, planner, on in (WAYS[place % 4], WAYS[(place + 1) % 4])[: 1 + (kind == "FULL JOIN")]:
        query = f"SELECT {KINDS[kind]} FROM a {kind} b ON {on} AND {WINDOW}"
        with settings_of(spark, planner=planner, cells=64):
            found = got(spark, query, frames, lanes)
        assert found == wanted(query)
        assert found.total() > 50


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("planner", ["mnrt", "qmmp", "hash"])
def test_every_kind_in_every_way(spark, frames, kind, planner):
    for lanes in (1, 2, 5, 8):
        for _, _, on in WAYS:
            query = f"SELECT {KINDS[kind]} FROM a {kind} b ON {on} AND {WINDOW} WHERE a.x > 4"
            if kind in ("RIGHT JOIN", "FULL JOIN"):
                query = query.partition(" WHERE")[0]
            with settings_of(spark, planner=planner, tolerance=0, cells=3):
                assert got(spark, query, frames, lanes) == wanted(query)


def test_groups(spark, frames):
    query = (
        "SELECT a.x, count(*) AS n, sum(b.x) AS s, max(b.id) AS m FROM a JOIN b "
        f"ON a.k = b.k AND {WINDOW} GROUP BY a.x"
    )
    found = got(spark, query, frames, 5)
    assert found == wanted(query)
    assert found.total() > 30


def test_one_key_has_all_rows(spark):
    """Rows of the split cell go to all lanes, and meet once."""
    rows = {name: spark.range(90).selectExpr("id", "id AS t", "7 AS k") for name in "ab"}
    query = "SELECT a.id AS i, b.id AS j FROM a LEFT JOIN b ON a.k = b.k AND b.t >= a.t"
    found = got(spark, query, rows, 5)
    assert found == Counter((i, j) for i in range(90) for j in range(i, 90))
    text = explain(spark, query, rows, time=TIME, lanes=5, partitioning="keys")
    assert "5 lanes: by a.k = b.k; 1024 cells, placed by mnrt, 1 of them split" in text
    # Each lane has a share of the left rows, and all right ones.
    assert "about 540 rows are sent" in text


@pytest.mark.slow
def test_times_that_spark_cannot_follow(spark, frames):
    query = (
        "SELECT a.id AS i, b.id AS j FROM (SELECT id, k, abs(t - 100) AS t FROM a) a JOIN b "
        f"ON a.k = b.k AND {WINDOW}"
    )
    assert got(spark, query, frames, 2) == wanted(query)


WITHIN = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON {} AND b.t BETWEEN a.t - {} AND a.t + {}"
#: All rows are in the window, so that any other way needs copies.
LONG = WITHIN.format("a.x = b.x", 500, 500)


def test_auto_takes_what_sends_fewer_rows(spark, frames):
    assert "5 lanes: by a.x = b.x" in explain(spark, LONG, frames, time=TIME, lanes=5)
    short = explain(spark, WITHIN.format("a.x = b.x", 1, 1), frames, time=TIME, lanes=5)
    assert "slices of a's time" in short
    assert "not by keys: they could not save enough rows" in short


@pytest.mark.slow
def test_auto_with_few_keys_and_with_none(spark, frames):
    assert got(spark, LONG, frames, 5, "auto") == wanted(LONG)
    # Half of the rows have one key.
    with settings_of(spark, cells=1):
        skewed = explain(spark, LONG, frames, time=TIME, lanes=5)
    assert "5 slices of a's time" in skewed
    assert "not by keys: about" in skewed
    either = explain(
        spark, WITHIN.format("(a.x = b.x OR a.k = b.k)", 9, 9), frames, time=TIME, lanes=5
    )
    assert "not by keys: no conjunct" in either


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("planner", "best", "planner is 'best', and must be one of mnrt, qmmp, hash"),
        ("tolerance", "-0.1", "tolerance is '-0.1', and must be a number, 0 or more"),
        ("tolerance", "nan", "tolerance is 'nan', and must be a number"),
        ("cells", "0", "cells is '0', and must be a whole number, 1 to 1048576"),
    ],
)
def test_wrong_settings(spark, frames, name, value, message):
    query = f"SELECT a.id FROM a JOIN b ON a.k = b.k AND {WINDOW}"
    with settings_of(spark, **{name: value}), pytest.raises(UsageError, match=message):
        sql(spark, query, frames, time=TIME)


def test_conditions_without_keys(spark, frames):
    query = f"SELECT a.id FROM a JOIN b ON (a.k = b.k OR a.x = b.x) AND {WINDOW}"
    with pytest.raises(UsageError, match="no conjunct of its condition has the form"):
        sql(spark, query, frames, time=TIME, lanes=1, partitioning="keys")


def test_the_caller_chooses_the_keys(spark, frames):
    query = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.k = b.k AND a.s = b.s AND {WINDOW}"
    text = explain(spark, query, frames, time=TIME, lanes=2, keys={"a": "s", "B": ["s"]})
    assert "by a.s = b.s; 1024 cells" in text
    for keys, message in [
        ({"a": "k", "b": "s"}, "no conjunct of its condition ties a.k to b.s alone"),
        ({"a": "k"}, "keys has no column of b; give one of each side"),
        ({"a": "k", "b": "k", "c": "k"}, "keys names c, but the query joins a and b"),
    ]:
        with pytest.raises(UsageError, match=message):
            sql(spark, query, frames, time=TIME, lanes=2, keys=keys)
