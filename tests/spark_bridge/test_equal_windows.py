"""Joins of rows in one window beside Spark, whose sessions are those of one table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.spark_bridge import sql

_AT = pa.timestamp("us", tz="UTC")

#: Spark joins each row to its session, which lies apart from the others of its key.
_IN_SPARK = """
WITH sessions AS (
  SELECT k, session_window(t, '10 seconds') AS w
  FROM (SELECT k, t FROM a UNION ALL SELECT k, t FROM b)
  GROUP BY k, session_window(t, '10 seconds'))
SELECT a.n AS i, b.n AS j FROM sessions s
JOIN a ON a.k = s.k AND a.t >= s.w.start AND a.t < s.w.end
JOIN b ON b.k = s.k AND b.t >= s.w.start AND b.t < s.w.end
"""


#: Spark has windows in a column.
_WINDOWS_IN_SPARK = """
SELECT a.n AS i, b.n AS j FROM (SELECT *, window(t, '10 seconds') AS w FROM a) a
LEFT JOIN (SELECT *, window(t, '10 seconds') AS w FROM b) b ON a.k = b.k AND a.w = b.w
"""


@pytest.fixture(scope="module")
def tables(spark):
    """Two tables, which are views in Spark."""
    rng, tables = Random(3), {}
    for name in ("a", "b"):
        # Multiples of 5 s: many neighbours are a gap apart, to the tick.
        times = [
            datetime(2024, 3, 1, tzinfo=UTC) + timedelta(seconds=5 * rng.randrange(60))
            for _ in range(60)
        ]
        keys = [rng.choice(["u", "v", "w", None]) for _ in times]
        columns = {"n": range(len(times)), "k": keys, "t": pa.array(times, _AT)}
        tables[name] = pa.table({key: pa.array(own) for key, own in columns.items()})
        spark.createDataFrame(tables[name]).createOrReplaceTempView(name)
    yield tables
    for name in tables:
        spark.catalog.dropTempView(name)


def test_pairs_of_sessions_are_those_of_spark(spark, tables) -> None:
    wanted = sorted(map(tuple, spark.sql(_IN_SPARK).collect()))
    found = penstock.sql(
        "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND "
        "session_window(a.t, '10 seconds') = session_window(b.t, '10 seconds')",
        tables,
    )
    assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == wanted
    assert 100 < len(wanted) < 1000


def test_rows_of_one_window_in_spark(spark, tables) -> None:
    frames = {name: spark.table(name) for name in tables}
    found = sql(
        spark,
        "SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b ON a.k = b.k AND "
        "window(a.t, '10 seconds') = window(b.t, '10 seconds')",
        frames,
    )
    wanted = [tuple(row) for row in spark.sql(_WINDOWS_IN_SPARK).collect()]
    assert sorted(map(repr, map(tuple, found.collect()))) == sorted(map(repr, wanted))
    assert any(j is None for _, j in wanted)
