"""The state design: the same rows, from Spark's own state."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.errors import StreamingQueryException

import penstock
from penstock.errors import FileError, QueryError, UsageError
from penstock.spark_bridge.streaming import compaction, stream
from tests.kit.effort import effort
from tests.spark_bridge.kit.streams import (
    PROVIDER,
    ROCKSDB,
    cut,
    drawn,
    rows_of,
    stream_of,
    table,
    written,
)

PARTITIONS = "spark.sql.shuffle.partitions"
NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"
INNER = f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {NEAR}"
LEFT = f"SELECT a.n AS a, b.n AS b FROM a LEFT JOIN b ON {NEAR}"


@pytest.fixture
def rocksdb(spark):
    spark.conf.set(PROVIDER, ROCKSDB)
    partitions = spark.conf.get(PARTITIONS)
    # Each has a task in every batch, with a process of its own and a database.
    spark.conf.set(PARTITIONS, effort(partitions, "1"))
    yield spark
    spark.conf.set(PARTITIONS, partitions)
    spark.conf.unset(PROVIDER)


def streams(spark, folder, parts):
    sides = {k: cut(drawn(seed, 150, disorder=5), parts) for seed, k in enumerate("ab")}
    for side, own in sides.items():
        # A last batch, long after all others, lets out what waits.
        written(folder / side, [table(part) for part in [*own, [(-1, 9999, -9)]]])
    tables = {side: stream_of(spark, folder / side) for side in sides}
    return tables, {k: table([r for part in own for r in part]) for k, own in sides.items()}


@pytest.mark.parametrize(
    ("text", "lanes"),
    [(LEFT, 1), pytest.param(INNER, 2, marks=pytest.mark.slow)],
)
def test_rows(rocksdb, tmp_path, monkeypatch, text, lanes):
    monkeypatch.setattr(compaction, "MOST_FILES", 2)
    tables, whole = streams(rocksdb, tmp_path, effort(3, 2))
    joined = stream(rocksdb, text, tables, lanes=lanes, design="state")
    writer = joined.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.start(str(tmp_path / "output")).awaitTermination(240)
    found = rocksdb.read.schema(joined.schema).parquet(str(tmp_path / "output")).toArrow()
    found = [row for row in rows_of(found, ["a", "b"]) if row[0] != -1]
    assert found == rows_of(penstock.sql(text, whole), ["a", "b"])
    # Spark would skip the batches of a new checkpoint: their numbers are in the path's log.
    writer = joined.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "other"))
    with pytest.raises(UsageError, match=r"Spark would take batches .* choose another path"):
        writer.start(str(tmp_path / "output"))


def test_what_it_does_not_do(spark, rocksdb, tmp_path):
    tables, _ = streams(spark, tmp_path, 1)
    with pytest.raises(QueryError, match=r"a LEFT OUTER JOIN in one lane, not 2.*design='files'"):
        stream(spark, LEFT, tables, lanes=2, design="state")
    rows = "SELECT a.n FROM a JOIN b ON a.x = b.x"
    with pytest.raises(QueryError, match="ROWS in one lane"):
        stream(spark, rows, tables, rows=3, lanes=2, design="state")
    with pytest.raises(UsageError, match="files, state"):
        stream(spark, INNER, tables, design="stat")
    spark.conf.unset(PROVIDER)
    with pytest.raises(UsageError, match="RocksDBStateStoreProvider"):
        stream(spark, INNER, tables, design="state")


@pytest.mark.slow
def test_another_query_on_its_checkpoint(spark, rocksdb, tmp_path):
    tables, _ = streams(spark, tmp_path, 1)
    checkpoint = str(tmp_path / "checkpoint")

    def start(frame) -> None:
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination(120)

    start(stream(spark, INNER, tables, design="state"))
    # These may change: how the text is written, and the disorder.
    rewritten = INNER.replace(" ON ", "\n  ON -- what is near\n ").replace("SELECT", "select")
    start(stream(spark, rewritten, tables, design="state", disorder=0))
    changed = stream(spark, LEFT, tables, design="state")
    with pytest.raises(UsageError, match=r"of another query.*: query `.* LEFT JOIN b"):
        start(changed)
    with pytest.raises(UsageError, match=r": lanes `1` is now `2`; spark.sql.shuffle"):
        start(stream(spark, INNER, tables, design="state", lanes=2))
    other = tables["a"].writeStream.format("noop").trigger(availableNow=True)
    other.option("checkpointLocation", f"{checkpoint}-other").start().awaitTermination(120)
    checkpoint += "-other"
    with pytest.raises(FileError, match=r"\[1\] sources .* begin anew with another checkpoint"):
        start(stream(spark, INNER, tables, design="state"))
    checkpoint = checkpoint.removesuffix("-other")
    # A frame that is made from it is started by Spark alone, and its tasks look.
    for side in "ab":
        pq.write_table(table([(5, 99999, 1)]), tmp_path / side / "9999.parquet")
    with pytest.raises(StreamingQueryException, match=r"of another query.*: query `.* LEFT JOIN b"):
        start(changed.selectExpr("a + 1 AS c"))
