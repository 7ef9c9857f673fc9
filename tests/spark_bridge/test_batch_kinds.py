"""Outer, semi and anti joins and groups in batch, cut in every way, against penstock.sql."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import penstock

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge import sql
from tests.spark_bridge.kit.batch import as_read, check, counted, timed

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


#: Those of the short run.
SHORT = ("left", "full", "anti", "folded", "of both", "an empty group")


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=() if one in SHORT else pytest.mark.slow) for one in KINDS]
)
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


@pytest.mark.parametrize(
    "kind", [k if k == "JOIN" else pytest.param(k, marks=pytest.mark.slow) for k in ROWS_KINDS]
)
def test_kinds_of_rows(spark, laid_out, kind):
    frames = timed(laid_out("two partitions"))
    by = " GROUP BY a.x" if kind == "JOIN" else ""
    query = f"SELECT {ROWS_KINDS[kind]} FROM a {kind} b ON abs(a.x - b.x) < 4 AND a.y < 20{by}"
    options = {"time": {"a": "t", "b": "t"}, "rows": {"a": 12, "b": 7}}
    assert check(spark, query, frames, lanes=4, **options) > 0


@pytest.mark.parametrize("where", ["1 = 0", "a.x > 3 AND NULL"])
def test_a_where_that_is_never_true(spark, laid_out, where):
    frames = laid_out("two partitions")
    query = f"SELECT a.id AS i, b.id AS j FROM a LEFT JOIN b ON {WINDOW} WHERE {where}"
    time = {"a": "t", "b": "t"}
    assert sql(spark, query, frames, lanes=2, time=time).collect() == []


@pytest.mark.parametrize("on", ["b.t > a.t", "ROWS"])
def test_times_at_both_ends(spark, on):
    """Slices of time and segments of arrivals, with bounds at the ends of what a long holds."""
    ends = (-(1 << 63), 2 - (1 << 63), 0, (1 << 63) - 4, (1 << 63) - 1)
    frames = {
        name: spark.createDataFrame(
            [(k, ends[k * step % 5], k % 4) for k in range(60)], "id long, t long, x int"
        )
        for name, step in (("a", 2), ("b", 3))
    }
    options = {"time": {"a": "t", "b": "t"}}
    if on == "ROWS":
        options |= {"rows": 4}
        frames = {name: frame.repartition(1) for name, frame in frames.items()}
    condition = "a.x = b.x" if on == "ROWS" else f"{on} AND a.x = b.x"
    query = f"SELECT a.id AS i, b.id AS j FROM a LEFT JOIN b ON {condition}"
    got = sql(spark, query, frames, lanes=3, partitioning="time", **options).toArrow()
    tables = {name: as_read(frame) for name, frame in frames.items()}
    expected = penstock.sql(query, tables, **options)
    assert counted(got) == counted(expected)
    assert expected.num_rows > 60
