"""Windowed joins that Spark runs itself: the rows of penstock.sql, and when it does."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import penstock

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge import explain, sql
from penstock.spark_bridge.batch import decide

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
CASES = (
    ("a.k = b.j", "b.t BETWEEN a.t - 3 AND a.t + 2", {"time": {"a": "t", "b": "t"}}, ""),
    ("a.s = b.s AND a.k <= b.j", "b.t >= a.t - 1", {"time": {"a": "t", "b": "t"}}, "a.k > 1"),
    ("b.s = a.s AND (a.x IS NULL OR b.k < 3)", "TRUE", {"within": timedelta(days=1)}, "b.s <> ''"),
)
INT64 = (-(1 << 63), (1 << 63) - 1)
EXPLAINED = "joined by    Spark itself: about"


def table(rng: np.random.Generator, rows: int) -> pa.Table:
    """Few keys; the least and greatest times, and NULL, in each column."""
    times = [None, INT64[0], INT64[0] + 2, *range(6), INT64[1] - 1, INT64[1]]
    days = [datetime(2026, 1, 1) + timedelta(hours=17 * n) for n in range(6)]

    def drawn(values: list, form: pa.DataType) -> pa.Array:
        return pa.array([values[n] for n in rng.integers(0, len(values), rows)], form)

    columns = {
        "k": drawn([None, 0, 1, 2, 3], pa.int32()),
        "j": drawn([None, 0, 1, 2], pa.int64()),
        "s": drawn([None, "", "a", "b"], pa.string()),
        "t": drawn(times, pa.int64()),
        "day": drawn([None, *days], pa.timestamp("us", "UTC")),
        "x": drawn([None, 1, 2], pa.int32()),
        "id": pa.array(range(rows), pa.int32()),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def tables(spark):
    rng = np.random.default_rng(5)
    rows = {"a": table(rng, 70), "b": table(rng, 50)}
    return rows, {name: spark.createDataFrame(one).repartition(3) for name, one in rows.items()}


def rows_of(rows: pa.Table) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_rows_are_those_of_penstock(spark, tables, kind, ansi, monkeypatch):
    """NULL and the ends of BIGINT, beyond which a bound of the window lies, in either mode."""
    rows, frames = tables
    monkeypatch.setattr(decide, "small", lambda request, inputs: None)
    output = "a.id AS i" if kind.endswith(("SEMI JOIN", "ANTI JOIN")) else "a.id AS i, b.s, b.id"
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for on, window, options, where in CASES:
            text = f"SELECT {output} FROM a {kind} b ON {on} AND {window}"
            if where and kind == "JOIN":
                text += f" WHERE {where}"
            how = {"time": {"a": "day", "b": "day"}, **options}
            assert EXPLAINED in explain(spark, text, frames, **how), text
            wanted = penstock.sql(text, rows, **how)
            assert rows_of(sql(spark, text, frames, **how).toArrow()) == rows_of(wanted), text
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_penstock_runs_what_spark_may_see_otherwise(spark, tables, monkeypatch):
    """Arithmetic, no equality of columns, many pairs, and whoever asks for lanes or a device."""
    monkeypatch.setattr(decide, "small", lambda request, inputs: None)
    window = "b.t BETWEEN a.t - 3 AND a.t + 2"
    how = {"time": {"a": "t", "b": "t"}}

    def shown(on: str, select: str = "a.id", **options) -> str:
        text = f"SELECT {select} FROM a JOIN b ON {on} AND {window}"
        return explain(spark, text, tables[1], **how, **options)

    assert EXPLAINED in shown("a.k = b.k")
    for on in ("a.k = b.k + 1", "a.k < b.k", "a.k = a.x", "a.k = b.k AND a.x + b.x < 3"):
        assert EXPLAINED not in shown(on)
    assert EXPLAINED not in shown("a.k = b.k", "a.id + 1 AS n")
    assert EXPLAINED not in shown("a.k = b.k", "count(*) AS n")
    for options in ({"lanes": 2}, {"partitioning": "time"}, {"device": "cpu"}):
        assert EXPLAINED not in shown("a.k = b.k", **options)
    many = {name: frame.withColumn("id", frame["t"] * 0 + 1) for name, frame in tables[1].items()}
    text = f"SELECT a.s FROM a JOIN b ON a.id = b.id AND {window}"
    assert EXPLAINED not in explain(spark, text, many, **how)
    assert "lanes" in explain(spark, text, many, **how)
