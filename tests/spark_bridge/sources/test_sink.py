"""From replay to sink in Spark: through failures, crashes and repeated batches, rows once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.errors import FileError
from penstock.sim.spark_replay.limits import TOLD
from penstock.spark_bridge import register
from penstock.spark_bridge.sources.ledger import Ledger
from penstock.spark_bridge.streaming import stream
from penstock.spark_bridge.streaming.output import query_number
from tests.spark_bridge.kit.streams import (
    drawn,
    rows_of,
    stream_of,
    table,
    written,
)

NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"
INNER = f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {NEAR}"
ROWS = 300


@pytest.fixture
def numbers(spark, tmp_path):
    """A stream of three micro-batches."""
    register(spark)
    n = np.arange(ROWS)
    whole = pa.table({"n": n, "t": n})
    if not TOLD:  # Spark 4.1: a replay cannot be cut
        parts = [whole.slice(k, 100) for k in range(0, ROWS, 100)]
        return stream_of(spark, written(tmp_path / "n", parts), "n long, t long", delay=None)
    pq.write_table(whole, tmp_path / "n.parquet", row_group_size=64)
    source = spark.readStream.format("penstock_replay").option("time", "t").option("disorder", 9)
    return source.option("rowsPerBatch", 100).load(str(tmp_path / "n.parquet"))


def struck(folder: Path, times: int, at: int):
    """A step of a query: the task that has this row fails after its rows, so many times."""
    marks = str(folder / "marks")
    os.makedirs(marks, exist_ok=True)

    def run(batches):
        found = False
        for batch in batches:
            found = found or at in batch.column(0).to_pylist()
            yield batch
        if found and len(os.listdir(marks)) < times:
            name = os.path.join(marks, str(len(os.listdir(marks))))
            with open(name, "x"):
                pass
            raise RuntimeError("struck")

    return run


def start(frame, folder: Path):
    writer = frame.writeStream.format("penstock_batches").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.start(str(folder / "out"))


def numbers_in(spark, folder: Path) -> list[int]:
    found = spark.read.format("penstock_batches").load(str(folder / "out"))
    return sorted(found.toArrow().column("n").to_pylist())


def stored(folder: Path) -> int:
    return len([p for p in (folder / "out" / "rows").rglob("*") if p.is_file()])


@pytest.mark.slow
def test_once_through_failures(spark, tmp_path, numbers):
    # local[2,3]: three attempts make a batch fail, and the query with it; one more is retried.
    step = struck(tmp_path, 4, at=150)
    struck_frame = numbers.mapInArrow(step, "n long, t long")
    query = start(struck_frame, tmp_path)
    with pytest.raises(Exception, match="struck"):
        query.awaitTermination(120)
    ledger = Ledger(str(tmp_path / "out"))
    (writer,) = ledger.writers()
    assert writer == query.id == query_number(str(tmp_path / "checkpoint"))
    assert ledger.batches(writer) == [0]
    assert len(numbers_in(spark, tmp_path)) == 100
    assert start(struck_frame, tmp_path).awaitTermination(120)
    assert len(os.listdir(tmp_path / "marks")) == 4
    assert numbers_in(spark, tmp_path) == list(range(ROWS))
    assert ledger.batches(writer) == [0, 1, 2]
    files = stored(tmp_path)
    assert files == sum(len(ledger.files(writer, batch)) for batch in range(3))

    # A crash between the sink's commit and Spark's: the batch comes again, and is recognised.
    for name in ("2", ".2.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    again = start(struck_frame, tmp_path)
    assert again.awaitTermination(120)
    assert again.lastProgress["batchId"] == 2
    assert numbers_in(spark, tmp_path) == list(range(ROWS))
    assert stored(tmp_path) == files


@pytest.mark.slow
def test_readers_and_writers(spark, tmp_path, numbers):
    assert start(numbers, tmp_path).awaitTermination(240)
    # A stream of what is committed.
    rows = spark.readStream.format("penstock_batches").load(str(tmp_path / "out"))
    seen = rows.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
    assert seen.awaitTermination(120)
    assert spark.table("seen").toArrow().num_rows == ROWS

    # Another query is another writer: nothing of it is taken for a repetition.
    shutil.rmtree(tmp_path / "checkpoint")
    assert start(numbers, tmp_path).awaitTermination(120)
    assert numbers_in(spark, tmp_path) == sorted(2 * list(range(ROWS)))


def test_batches_of_a_dataframe(spark, tmp_path):
    register(spark)
    path = str(tmp_path / "out")
    sink = spark.range(5).selectExpr("id AS n").write.format("penstock_batches").mode("append")
    for _ in range(2):
        sink.option("writer", "me").option("batch", 7).save(path)
    assert numbers_in(spark, tmp_path) == list(range(5))
    for _ in range(2):
        spark.range(1).selectExpr("id + 9 AS n").write.format("penstock_batches").mode(
            "append"
        ).save(path)
    assert numbers_in(spark, tmp_path) == [0, 1, 2, 3, 4, 9, 9]
    with pytest.raises(Exception, match="give both"):
        spark.range(1).selectExpr("id AS n").write.format("penstock_batches").mode("append").option(
            "batch", 1
        ).save(path)
    with pytest.raises(Exception, match="never changes a committed batch"):
        spark.range(1).selectExpr("id AS n").write.format("penstock_batches").mode(
            "overwrite"
        ).save(path)
    with pytest.raises(Exception, match="have columns n long, and these rows have id long"):
        spark.range(1).write.format("penstock_batches").mode("append").save(path)
    with pytest.raises(FileError, match="option"):
        query_number(str(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(not TOLD, reason="rates and sizes of a replay need Spark 4.2")
def test_joins(spark, tmp_path):
    register(spark)
    whole, tables = {}, {}
    for seed, side in enumerate("ab"):
        whole[side] = table(drawn(seed, 150, disorder=5))
        pq.write_table(whole[side], tmp_path / f"{side}.parquet")
        source = spark.readStream.format("penstock_replay").option("time", "t")
        source = source.option("rowsPerBatch", 50).option("disorder", "3s").option("seed", seed)
        frame = source.load(str(tmp_path / f"{side}.parquet"))
        tables[side] = frame.withWatermark("t", "9 seconds")
    joined = stream(spark, INNER, tables)
    assert start(joined, tmp_path).awaitTermination(240)
    # A crash between the two commits.
    for name in ("2", ".2.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    assert start(stream(spark, INNER, tables), tmp_path).awaitTermination(240)
    found = spark.read.format("penstock_batches").load(str(tmp_path / "out")).toArrow()
    names = ["a", "b"]
    assert rows_of(found, names) == rows_of(penstock.sql(INNER, whole), names)
