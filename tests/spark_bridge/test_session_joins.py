"""Joins by sessions beside Spark, which has sessions of one table: those of both tables' rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa

import penstock

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


def test_pairs_of_sessions_are_those_of_spark(spark) -> None:
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
    try:
        wanted = sorted(map(tuple, spark.sql(_IN_SPARK).collect()))
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)
    found = penstock.sql(
        "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND "
        "session_window(a.t, '10 seconds') = session_window(b.t, '10 seconds')",
        tables,
    )
    assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == wanted
    assert 100 < len(wanted) < 1000
