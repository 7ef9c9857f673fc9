"""What is refused before a streaming join starts, each with its remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F

from penstock.errors import FileError, QueryError, UsageError
from penstock.spark_bridge import stream
from penstock.spark_bridge.streaming.identity import check_folder
from penstock.spark_bridge.streaming.microbatch import MicroBatch
from penstock.spark_bridge.streaming.place import FOLDER, QueryPlace
from tests.spark_bridge.kit.streams import stream_of, table, written

NEAR = "a.x = b.x AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t"
TEXT = f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {NEAR}"


@pytest.fixture
def tables(spark, tmp_path):
    folder = written(tmp_path / "source", [table([(1, 1, 1)]), table([(2, 5, 1)])])
    return {side: stream_of(spark, folder) for side in "ab"}


def test_a_source_without_watermark(spark, tmp_path, tables):
    folder = tmp_path / "source"
    bare = {**tables, "b": stream_of(spark, folder, delay=None)}
    with pytest.raises(UsageError, match=r'b has no watermark on t.*withWatermark\("t"'):
        stream(spark, TEXT, bare)
    made = stream(spark, TEXT, bare, disorder={"b": timedelta(seconds=2)})
    assert made.spec.disorder == {"l": 5_000_000, "r": 2_000_000}


def test_queries(spark, tables):
    with pytest.raises(QueryError, match="unknown column y in b"):
        stream(spark, TEXT.replace("b.x", "b.y"), tables)
    with pytest.raises(QueryError, match=r"of integer and timestamp.* has no meaning"):
        stream(spark, TEXT.replace("a.x = b.x", "a.x = b.t"), tables)
    with pytest.raises(QueryError, match="unique"):
        stream(spark, f"SELECT a.x, count(*) AS k FROM a JOIN b ON {NEAR} GROUP BY a.x", tables)
    with pytest.raises(UsageError, match="lanes must be 1 or more"):
        stream(spark, TEXT, tables, lanes=0)


TUMBLING = (
    "SELECT window(a.t, '10 seconds').start AS w, a.n AS n, count(*) AS k FROM a JOIN b "
    f"ON {NEAR} GROUP BY window(a.t, '10 seconds'), a.n"
)


FIRST = (
    "SELECT a.x AS x, min_by(b.n, b.n % 2) AS f FROM a JOIN b ON abs(a.x - b.x) < 3 AND "
    "b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t GROUP BY a.x, window(a.t, '10 seconds')"
)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TEXT, {"design": "state"}, "lies in files beside the checkpoint; leave design out"),
        (TEXT.replace("a.x = b.x", "(a.x = b.x OR a.n = b.n)"), {}, "no conjunct .* add one with"),
        (TEXT, {"keys": {"a": "n", "b": "n"}}, "ties a.n to b.n alone"),
        (TEXT, {"partitioning": "time"}, "must be one of auto, rows, keys, not 'time'"),
        (FIRST, {"keys": {"a": "x", "b": "x"}}, "the order of rows, which ranges do not keep"),
        (
            FIRST.replace("abs(a.x - b.x) < 3", "a.n = b.n"),
            {"keys": {"a": "n", "b": "n"}},
            "which other keys than those of its groups do not keep; leave partitioning and keys",
        ),
        (
            TUMBLING.replace("a.x = b.x", "(a.x = b.x OR a.n = b.n)"),
            {"keys": {"a": "x", "b": "x"}},
            "ties a.x to b.x alone; add one with AND",
        ),
        ("SELECT a.n AS n FROM a JOIN b ON a.x = b.x", {"rows": 5}, "count rows of all keys"),
    ],
)
def test_rows_that_cannot_be_dealt_by_keys(spark, tables, text, options, message):
    with pytest.raises(UsageError, match=message):
        stream(spark, text, tables, **{"partitioning": "keys", **options})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TUMBLING, ["by a.x = b.x", "groups have other keys, so lanes give parts of them"]),
        (TUMBLING.replace("a.x = b.x", "a.x < b.x"), ["by groups of a.n", "reads all of b"]),
        (FIRST, ["by groups of a.x", "groups of split cells are merged"]),
    ],
)
def test_groups_are_dealt_by_keys_all_the_same(spark, tables, text, said):
    shown = stream(spark, text, tables, partitioning="keys").explained()
    assert all(one in shown for one in said), shown


def test_a_folder_that_the_driver_does_not_share(spark, tmp_path, tables):
    made = stream(spark, TEXT, tables)
    store = QueryPlace(str(tmp_path / "elsewhere")).store
    micro_batch = MicroBatch(made.spec, store, 1, made.after, lambda _rows, _batch: None)
    with pytest.raises(FileError, match=r"is not the folder that start\(\) made; .* Connect"):
        micro_batch(spark.range(1), 0)


def test_writers(spark, tmp_path, tables):
    writer = stream(spark, TEXT, tables).writeStream
    with pytest.raises(UsageError, match="needs a checkpoint"):
        writer.start(str(tmp_path / "out"))
    with pytest.raises(UsageError, match="output mode append"):
        writer.outputMode("complete")
    with pytest.raises(UsageError, match="no path of a file system"):
        writer.option("checkpointLocation", "ftp://host/join").start(str(tmp_path / "out"))
    fresh = stream(spark, TEXT, tables).writeStream
    with pytest.raises(UsageError, match="needs a folder for the output"):
        fresh.option("checkpointLocation", str(tmp_path / "c")).start()


def test_checkpoints(spark, tmp_path, tables):
    joined, checkpoint = stream(spark, TEXT, tables), tmp_path / "checkpoint"
    seen = []

    def sink(rows, batch):
        seen.append((batch, rows.count()))
        if batch == 1 and len(seen) == 2:
            raise RuntimeError("the sink is broken")

    def run() -> None:
        writer = joined.writeStream.foreachBatch(sink).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        query.awaitTermination(120)

    with pytest.raises(Exception, match="the sink is broken"):
        run()
    run()  # the same batch again, with the same rows
    assert seen == [(0, 1), (1, 1), (1, 1)]

    state = checkpoint / FOLDER
    place = QueryPlace(str(checkpoint))
    wider = {**tables, "b": tables["b"].withColumn("x", F.col("x").cast("long"))}
    for changed, what in (
        (
            stream(spark, TEXT.replace("3 SECONDS", "4 SECONDS"), tables),
            r"query `BETWEEN .*3 SECONDS AND a\.t` is now `BETWEEN .*4 SECONDS",
        ),
        (stream(spark, TEXT, wider), "columns of b `.*x: int32.*` is now `.*x: int64"),
    ):
        writer = changed.writeStream.foreachBatch(sink)
        with pytest.raises(UsageError, match=rf"of another query, whose rows it keeps: {what}"):
            writer.option("checkpointLocation", str(checkpoint)).start()
    other = spark.readStream.format("rate").load()
    other = other.selectExpr("value AS n", "timestamp AS t", "cast(value AS int) AS x")
    replaced = stream(spark, TEXT, {**tables, "b": other.withWatermark("t", "5 seconds")})
    writer = replaced.writeStream.foreachBatch(sink)
    with pytest.raises(FileError, match=r"cannot start the query from .*, neither another one nor"):
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination(120)
    number = check_folder(place, joined.spec)
    rewritten = TEXT.replace(" JOIN ", "\n  join /* what is near */ ")
    assert check_folder(place, stream(spark, rewritten, tables).spec) == number
    for hidden, message in (
        (next(Path(state, "rows").glob("1-*")), "is gone"),
        (state / "batches" / "1.json", r"batches/1.json is gone; restore the folder"),
        (state, "has no state of the join"),
        (checkpoint / "offsets" / "1", r"offsets/1, from which Spark knows .* is gone; restore"),
        (checkpoint / "sources" / "1" / "1", r"sources/1/1, from which .* is gone; restore"),
    ):
        away = hidden.rename(tmp_path / "hidden")
        with pytest.raises(FileError, match=message):
            joined.writeStream.foreachBatch(sink).option(
                "checkpointLocation", str(checkpoint)
            ).start()
        if hidden.is_dir():
            shutil.rmtree(hidden)
        away.rename(hidden)
    check_folder(place, joined.spec)


def test_resources_that_no_executor_has(spark, tables):
    spark.conf.set("spark.task.resource.fpga.amount", "1")
    try:
        with pytest.raises(UsageError, match=r"master local.* unset it and name the device"):
            stream(spark, TEXT, tables)
    finally:
        spark.conf.unset("spark.task.resource.fpga.amount")


WAITING = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from penstock.spark_bridge.java import ensure_java
ensure_java()
from pyspark.sql import SparkSession
from penstock.errors import UsageError
from penstock.spark_bridge import sql
from penstock.spark_bridge.discovery import discovery_script
builder = SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", "false")
builder = builder.config("spark.task.resource.fpga.amount", 1)
# Workers of the cluster have none.
builder = builder.config("spark.executor.resource.fpga.amount", 1)
builder = builder.config("spark.executor.resource.fpga.discoveryScript", str(discovery_script()))
spark = builder.config("spark.penstock.device.waitSeconds", 8).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rates = spark.readStream.format("rate").load().selectExpr("value AS x", "timestamp AS t")
rates = rates.withWatermark("t", "1 second")
rows = spark.range(9).selectExpr("id AS x", "timestamp_seconds(id) AS t")
for tables in ({"a": rates, "b": rates}, {"a": rows, "b": rows}):
    try:
        sql(spark, "SELECT a.x FROM a JOIN b ON a.x = b.x AND b.t BETWEEN a.t AND a.t", tables)
    except UsageError as error:
        print("REFUSED", error)
spark.stop()
"""


@pytest.mark.slow
def test_resources_that_no_worker_has(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WAITING],
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("REFUSED")]
    assert len(said) == 2, done.stdout[-2000:] + done.stderr[-4000:]
    assert all("no executor has the resource fpga" in line for line in said)


def test_a_checkpoint_that_the_state_design_began(spark, tables, tmp_path):
    (tmp_path / "penstock-query").mkdir()
    (tmp_path / "penstock-query" / "part-00000.txt").write_text("a note")
    writer = stream(spark, TEXT, tables).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path))
    with pytest.raises(UsageError, match=r"begun with design='state'.*another checkpointLocation"):
        writer.start(str(tmp_path / "out"))
