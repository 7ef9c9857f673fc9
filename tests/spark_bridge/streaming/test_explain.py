"""What is told of a streaming join before it starts."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge import explain
from tests.spark_bridge.kit.streams import stream_of, table, written

QUERY = """SELECT a.n, b.n AS m FROM a LEFT JOIN b
    ON abs(a.x - b.x) < 3 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t"""


def test_a_stream(spark, tmp_path):
    folder = written(tmp_path / "source", [table([(1, 1, 1)])])
    tables = {side: stream_of(spark, folder) for side in "ab"}
    text = explain(spark, QUERY, tables, lanes=3, device="cpu")
    assert "left outer of a and b" in text
    assert "-3000000 <= right.time - left.time <= 0 us" in text
    assert "rows of b over 5,000,000 us below" in text
    assert "at most 3 of a micro-batch" in text
    assert "rows without a match of a when the watermark of b" in text
    assert "b probes a: band, 1 test" in text
    assert "cpu, by device=" in text
    rows = explain(spark, "SELECT a.n FROM a JOIN b", tables, rows=9, time={"a": "t", "b": "t"})
    assert "rows wait until the watermarks of both sides" in rows
