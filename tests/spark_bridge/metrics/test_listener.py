"""Figures of real queries against numbers that can be counted by hand."""

from __future__ import annotations

import re
import urllib.request
from importlib.util import find_spec

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.cli.main import app
from penstock.errors import UsageError
from penstock.spark_bridge import stream, watch
from penstock.spark_bridge.metrics import listener as listening
from tests.spark_bridge.kit.streams import Row, cut, stream_of, table, written

TEXT = (
    "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.x - b.x) < 2 "
    "AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"
)
BATCHES, ROWS, LATE = 3, 120, 2


def drawn(seed: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    times = np.arange(ROWS) - rng.integers(0, 4, ROWS)
    numbers = rng.integers(0, 9, ROWS)
    return [(n, int(t), int(x)) for n, (t, x) in enumerate(zip(times, numbers, strict=True))]


def expected(sides: dict[str, list[list[Row]]]) -> tuple[list[int], list[int]]:
    """Pairs in the window, and pairs that join, by the micro-batch of their later row."""
    pairs, rows = [0] * BATCHES, [0] * BATCHES
    for k, part in enumerate(sides["a"]):
        for i, other in enumerate(sides["b"]):
            for _, t, x in part:
                for _, u, y in other:
                    if t - 3 <= u <= t + 4:
                        pairs[max(k, i)] += 1
                        rows[max(k, i)] += abs(x - y) < 2
    return pairs, rows


@pytest.fixture
def listener(spark):
    spark.conf.set("spark.penstock.metrics.port", "0")
    yield lambda: watch(spark)
    watch(spark).close()
    spark.conf.unset("spark.penstock.metrics.port")


def test_figures(spark, tmp_path, monkeypatch, listener):
    lanes = 2
    monkeypatch.setattr("penstock.spark_bridge.streaming.microbatch.PAIRS_PER_SHARD", 10)
    sides = {side: cut(drawn(seed), BATCHES) for seed, side in enumerate("ab")}
    pairs, rows = expected(sides)
    given = {side: [*map(list, parts)] for side, parts in sides.items()}
    given["a"][2] += [(900 + k, 10, 1) for k in range(LATE)]
    for side, parts in given.items():
        written(tmp_path / side, [table(part) for part in parts])
    tables = {side: stream_of(spark, tmp_path / side) for side in "ab"}
    joined = stream(spark, TEXT, tables, lanes=lanes, pruning=False)
    writer = joined.writeStream.format("parquet").queryName("near files")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    assert query.awaitTermination(240)
    heard = listener()
    assert heard.wait(query, BATCHES - 1, 120)
    batches = heard.batches(query)
    assert [one.batch for one in batches] == [0, 1, 2]
    assert [one.evaluations for one in batches] == pairs
    assert [one.pairs_in_window for one in batches] == pairs
    assert [one.rows for one in batches] == rows
    assert [one.late for one in batches] == [{"a": late, "b": 0} for late in (0, 0, LATE)]
    assert [one.arrived for one in batches] == [{"a": 40, "b": 40}] * 2 + [{"a": 42, "b": 40}]
    assert all(one.is_whole and len(one.busy_s) == lanes for one in batches)
    assert all(0 < one.utilisation < 1 and one.seconds > 0 for one in batches)
    # The last two batches: blocks go as a whole.
    assert batches[-1].window_rows == 160
    assert batches[-1].window_bytes > 0

    with urllib.request.urlopen(f"http://127.0.0.1:{heard.port}/metrics", timeout=30) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    values = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }
    name = "near files"
    assert values["penstock_evaluations_total", name] == sum(pairs)
    assert values["penstock_rows_total", name] == sum(rows)
    assert values["penstock_late_rows_total", "a", name] == LATE
    assert values["penstock_arrived_rows_total", "b", name] == ROWS
    assert values["penstock_window_rows", name] == batches[-1].window_rows
    shown = CliRunner().invoke(app, ["top", str(heard.port), "--once"])
    assert shown.exit_code == 0, shown.output
    assert re.search(r"^near files$", shown.output, re.M)
    assert re.search(rf"^a +0 +{ROWS + LATE} +{LATE} ", shown.output, re.M)


@pytest.mark.slow
def test_figures_of_keys_on_lanes(spark, tmp_path, monkeypatch, listener):
    monkeypatch.setattr("penstock.spark_bridge.streaming.microbatch.PAIRS_PER_SHARD", 1)
    for seed, side in enumerate("ab"):
        parts = cut(drawn(seed), BATCHES)
        written(tmp_path / side, [table([*map(list, part)]) for part in parts])
    tables = {side: stream_of(spark, tmp_path / side) for side in "ab"}
    text = f"{TEXT} AND a.x = b.x"
    joined = stream(spark, text, tables, lanes=3, partitioning="keys")
    assert "they own keys, by a.x = b.x; 1024 cells of a hash" in joined.explained()
    writer = joined.writeStream.foreachBatch(lambda rows, batch: rows.collect())
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).queryName("keyed")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    heard = listener()
    assert heard.wait(query, BATCHES - 1, 120)
    for one in heard.batches(query):
        assert one.routing is not None
        assert 1 <= one.routing["busiest"] <= 1.05
        assert one.routing["entries"] >= one.routing["split"]
        assert len(one.busy_s) == 3
        assert one.busiest >= 1
    latest = heard.batches(query)[-1].routing
    assert latest["entries"] > 0
    with urllib.request.urlopen(f"http://127.0.0.1:{heard.port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    entries = rf'^penstock_routing_entries\{{query="keyed"\}} {latest["entries"]}.0$'
    assert re.search(entries, text, re.M)
    shown = CliRunner().invoke(app, ["top", str(heard.port), "--once"])
    assert shown.exit_code == 0, shown.output
    assert re.search(r"keys on lanes +busiest 1\.0\d planned, .* cells split", shown.output)


@pytest.mark.parametrize(
    ("device", "options"),
    [
        pytest.param(
            "remote",
            {"address": "unix:///nowhere/penstock.sock", "connect_s": 0.1},
            marks=pytest.mark.slow,
        ),
        # Simulated hardware has no floats: it refuses the query once it is open.
        ("amaranth", None),
    ],
)
def test_a_fallback_is_seen(spark, tmp_path, listener, device, options):
    sides = {side: drawn(seed) for seed, side in enumerate("ab")}
    for side, rows in sides.items():
        written(tmp_path / side, [table(rows)])
    tables = {side: stream_of(spark, tmp_path / side) for side in sides}
    spark.conf.set("spark.penstock.device.fallback", "cpu")
    try:
        text = TEXT.replace("abs(a.x - b.x) < 2", "sqrt(pow(a.x - b.x, 2)) < 1.5e0")
        given = {"device": device, "device_options": options, "lanes": 1}
        writer = stream(spark, text, tables, **given).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    finally:
        spark.conf.unset("spark.penstock.device.fallback")
    assert query.awaitTermination(240)
    heard = listener()
    assert heard.wait(query, 0, 120)
    (first, *_) = heard.batches(query)
    assert list(first.busy_s) == ["cpu-0"]
    pairs, rows = expected({side: [own] for side, own in sides.items()})
    assert (first.pairs_in_window, first.rows) == (pairs[0], rows[0])
    assert spark.read.parquet(str(tmp_path / "out")).count() == rows[0]


def test_what_is_no_join(spark, listener, tmp_path):
    heard = listener()
    assert heard is watch(spark)
    written(tmp_path / "a", [table([(1, 1, 1)])])
    query = stream_of(spark, tmp_path / "a").writeStream.format("noop").trigger(availableNow=True)
    started = query.option("checkpointLocation", str(tmp_path / "c")).start()
    assert started.awaitTermination(60)
    assert heard.batches(started) == []
    assert str(started.id) not in heard.reports()
    spark.conf.set("spark.penstock.metrics.port", "many")
    with pytest.raises(UsageError, match="a port, 0 to 65535"):
        watch(spark)
    spark.conf.set("spark.penstock.metrics.port", "0")


def test_nothing_is_served_unasked(spark):
    heard = watch(spark)
    try:
        assert heard.port is None
        if find_spec("bokeh"):
            page = heard.page()
            with urllib.request.urlopen(page.url, timeout=60) as answer:
                assert answer.status == 200
    finally:
        heard.close()
    if find_spec("bokeh"):
        page._thread.join(60)  # it ends with the listener
        assert not page._thread.is_alive()
    assert watch(spark) is not heard
    watch(spark).close()


def test_queries_are_forgotten(monkeypatch):
    monkeypatch.setattr(listening, "_recorded", {})
    monkeypatch.setattr(listening, "QUERIES", 3)
    for query in "abcadee":
        listening.records_are(query, lambda batch: None)
    assert [*listening._recorded] == ["a", "d", "e"]
