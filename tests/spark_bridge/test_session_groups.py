"""Groups by sessions are Spark's own, to the tick."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

import penstock

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")


def test_spark_gives_the_same(spark) -> None:
    begin, rng = datetime(2026, 1, 1), Random(3)
    rows = [(rng.randint(0, 2), begin + timedelta(seconds=rng.randint(0, 200))) for _ in range(60)]
    rows += [(7, begin), (7, begin + timedelta(seconds=10)), (7, begin + timedelta(seconds=21))]
    data = pa.table(
        {"k": [k for k, _ in rows], "t": pa.array([t for _, t in rows], pa.timestamp("us"))}
    )
    query = (
        "SELECT k, session_window(t, '10 seconds').start AS s, session_window(t, '10 seconds').end "
        "AS e, count(*) AS n FROM a GROUP BY k, session_window(t, '10 seconds')"
    )
    spark.createDataFrame(rows, "k long, t timestamp_ntz").createOrReplaceTempView("a")
    theirs = spark.sql(
        "SELECT k, session_window.start AS s, session_window.end AS e, count(*) AS n FROM a "
        "GROUP BY k, session_window(t, '10 seconds')"
    ).collect()
    ours = penstock.sql(query, {"a": data}, time={"a": "t"})
    assert sorted(tuple(row) for row in theirs) == sorted(
        zip(*(ours[name].to_pylist() for name in ("k", "s", "e", "n")), strict=True)
    )
