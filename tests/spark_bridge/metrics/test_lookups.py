"""Figures of streams that look up rows of a relation, against numbers counted by hand."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.cli.main import app
from penstock.spark_bridge import sql, watch
from tests.host.lookup.nodes.kit import nodes_of
from tests.spark_bridge.kit.lookups import DDL, customers, orders, renew, stored
from tests.spark_bridge.kit.streams import put, stream_of

QUERY = "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id"
BATCHES = 3


def matches(rows: pa.Table) -> int:
    keys = Counter(customers()["id"].to_pylist())
    return sum(keys[key] for key in rows["customer"].to_pylist() if key is not None)


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, marks=pytest.mark.slow), {"lanes": 2}],
    ids=["in place", "arcs"],
)
def test_figures(spark, tmp_path: Path, options):
    made = stored(tmp_path / "customers.rel")
    (tmp_path / "source").mkdir()
    given = [orders(60, seed=k, first=100 * k) for k in range(BATCHES)]
    for number, rows in enumerate(given):
        put(tmp_path / "source", number, rows)
    frame = stream_of(spark, tmp_path / "source", DDL, None).repartition(2)
    joined = sql(
        spark, QUERY, {"orders": frame, "customers": penstock.relation(made.name)}, **options
    )
    assert joined.columns == ["id", "name"]
    heard = watch(spark, 0)
    try:

        def keep(rows, batch: int) -> None:
            rows.write.mode("overwrite").parquet(str(tmp_path / "out" / str(batch)))
            if batch == 0:
                renew(made, 2)

        query = (
            joined.writeStream.foreachBatch(keep)
            .queryName(f"looked up {len(options)}")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
        assert heard.wait(query, BATCHES - 1, 120)
        batches = heard.batches(query)
        nulls = [rows["customer"].null_count for rows in given]
        assert [one.arrived for one in batches] == [{"o": 60}] * BATCHES
        assert [one.rows for one in batches] == [matches(rows) for rows in given]
        looked = [one.lookup for one in batches]
        assert [one.null_keys for one in looked] == nulls
        assert [one.sought for one in looked] == [60 - count for count in nulls]
        assert [one.version for one in looked] == [1, 2, 2]
        assert {one.relation for one in looked} == {made.name}
        assert looked[0].hits < looked[0].sought
        assert all(one.waited == one.sought - one.hits - one.absent >= 0 for one in looked)
        assert all(one.page_bytes >= one.pages > 0 for one in looked[:1])
        assert all(one.window_rows == 400 and one.window_bytes > 0 for one in batches)
        assert spark.read.parquet(str(tmp_path / "out" / "*")).count() == sum(map(matches, given))

        with urllib.request.urlopen(f"http://127.0.0.1:{heard.port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        name = f'query="looked up {len(options)}"'
        total = float(sum(one.sought for one in looked))
        assert re.search(rf"^penstock_lookup_sought_total{{{name}}} {total}$", text, re.M)
        assert re.search(rf"^penstock_lookup_version{{{name}}} 2.0$", text, re.M)
        shown = CliRunner().invoke(app, ["top", str(heard.port), "--once"])
        assert shown.exit_code == 0, shown.output
    finally:
        heard.close()


def test_figures_name_the_nodes(spark, tmp_path: Path):
    made = stored(tmp_path / "customers.rel")
    (tmp_path / "source").mkdir()
    given = [orders(60, seed=k, first=100 * k) for k in range(2)]
    for number, rows in enumerate(given):
        put(tmp_path / "source", number, rows)
    frame = stream_of(spark, tmp_path / "source", DDL, None).repartition(2)
    heard = watch(spark)
    with nodes_of(made.name, 2) as nodes:
        table = penstock.relation(made.name, nodes=True)
        query = (
            sql(spark, QUERY, {"orders": frame, "customers": table})
            .writeStream.format("parquet")
            .queryName("asked of nodes")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(240)
            assert heard.wait(query, 1, 120)
            looked = [one.lookup for one in heard.batches(query)]
            reported = heard.reports()["asked of nodes"].lookup
        finally:
            heard.close()
    asked = sum((Counter(one.nodes) for one in looked), Counter())
    assert asked
    assert set(asked) <= {node.name for node in nodes}
    entered = [node.forwarding.counts for node in nodes]
    assert asked.total() == sum(one.owned + one.hot + one.forwarded for one in entered)
    assert reported.nodes == asked
    assert reported.alone == reported.node_retries == 0
