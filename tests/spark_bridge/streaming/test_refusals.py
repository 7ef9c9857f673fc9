"""What is refused before a streaming join starts, each with its remedy."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import FileError, QueryError, UsageError
from penstock.spark_bridge.streaming import stream
from penstock.spark_bridge.streaming.identity import check_folder
from penstock.spark_bridge.streaming.microbatch import MicroBatch
from penstock.spark_bridge.streaming.writer import FOLDER, checkpoint_store
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
    with pytest.raises(QueryError, match="unique"):
        stream(spark, f"SELECT a.x, count(*) AS k FROM a JOIN b ON {NEAR} GROUP BY a.x", tables)
    with pytest.raises(UsageError, match="b is no stream"):
        stream(spark, TEXT, {**tables, "b": spark.range(1).selectExpr(
            "id AS n", "timestamp_seconds(id) AS t", "1 AS x")})  # fmt: skip
    with pytest.raises(UsageError, match="lanes must be at least 1"):
        stream(spark, TEXT, tables, lanes=0)


def test_a_folder_that_the_driver_does_not_share(spark, tmp_path, tables):
    made = stream(spark, TEXT, tables)
    store = checkpoint_store(str(tmp_path / "elsewhere"))
    micro_batch = MicroBatch(made.spec, store, 1, lambda _rows, _batch: None)
    with pytest.raises(FileError, match=r"is not the folder that start\(\) made; .* Connect"):
        micro_batch(spark.range(1), 0)


def test_writers(spark, tmp_path, tables):
    writer = stream(spark, TEXT, tables).writeStream
    with pytest.raises(UsageError, match="needs a checkpoint"):
        writer.start(str(tmp_path / "out"))
    with pytest.raises(UsageError, match="output mode append"):
        writer.outputMode("complete")
    with pytest.raises(UsageError, match="no path of a file system"):
        writer.option("checkpointLocation", "s3a://bucket/join").start(str(tmp_path / "out"))
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
    store = checkpoint_store(str(checkpoint))
    changed = stream(spark, TEXT.replace("3 SECONDS", "4 SECONDS"), tables)
    with pytest.raises(UsageError, match=r"of another query \(changed: query\)"):
        changed.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint)).start()
    check_folder(store, joined.spec)
    for hidden, message in (
        (next(Path(state, "rows").glob("1-*")), "is gone"),
        (state / "batches" / "1.json", "ends with batch 0, but Spark has completed batch 1"),
        (state, "has no state of the join"),
    ):
        away = hidden.rename(tmp_path / "hidden")
        with pytest.raises(FileError, match=message):
            joined.writeStream.foreachBatch(sink).option(
                "checkpointLocation", str(checkpoint)
            ).start()
        if hidden.is_dir():
            shutil.rmtree(hidden)
        away.rename(hidden)
    check_folder(store, joined.spec)
