"""Sinks that Spark users know: console, memory, noop, tables of the session, partitions."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import UsageError
from penstock.spark_bridge import stream
from penstock.spark_bridge.streaming.sinks import ConsoleSink
from tests.spark_bridge.kit.streams import put, stream_of, table

TEXT = "SELECT a.n AS a, b.x AS x FROM a JOIN b ON a.x = b.x AND b.t BETWEEN a.t AND a.t"
PARTS = [[(1, 1, 1), (2, 5, 1)], [(3, 9, 2)]]
ROWS = [(1, 1), (2, 1), (3, 2)]


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    put(tmp_path / "source", 0, table(PARTS[0]))
    return tmp_path / "source"


@pytest.fixture
def joined(spark, source):
    """A join of one micro-batch, and of one more if ``source`` gets it."""
    return stream(spark, TEXT, {side: stream_of(spark, source) for side in "ab"}, lanes=1)


@pytest.fixture
def writer(joined, tmp_path):
    writer = joined.writeStream.trigger(availableNow=True)
    return writer.option("checkpointLocation", str(tmp_path / "checkpoint"))


def rows_in(frame) -> list[tuple]:
    return sorted((row["a"], row["x"]) for row in frame.collect())


def test_what_is_refused(writer, tmp_path):
    with pytest.raises(UsageError, match=r"foreach calls .* to foreachBatch"):
        writer.foreach(print)
    with pytest.raises(UsageError, match=r"format memory makes a view .* queryName"):
        writer.format("memory").start()
    for options, said in [
        ({"numRows": "x"}, "numRows of format console is a"),
        ({"truncate": 3}, "truncate of .* is"),
    ]:
        with pytest.raises(UsageError, match=said):
            ConsoleSink.from_options({key: str(value) for key, value in options.items()})
    with pytest.raises(UsageError, match="partitionBy is for format delta and file formats, not"):
        writer.format("noop").partitionBy("x").start()
    with pytest.raises(UsageError, match=r"toTable is for .*, not for format noop"):
        writer.partitionBy().toTable("t")
    with pytest.raises(UsageError, match=r"needs a folder .*option\(\"path\", PATH\)"):
        writer.format("delta").toTable("t")
    with pytest.raises(UsageError, match=r'only reads folders .* format\("delta"\).* CAST them'):
        writer.format("penstock_batches").start(str(tmp_path / "out"))


def test_partitions_that_there_are_not(writer, tmp_path):
    writer = writer.format("parquet")
    for name in ("y", "batch"):
        with pytest.raises(UsageError, match=f"partitionBy names {name}, and the output has a, x"):
            writer.partitionBy(name).start(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_console(writer, capsys):
    query = writer.format("console").option("numRows", 1).option("truncate", "false").start()
    assert query.awaitTermination(120)
    said = capsys.readouterr().out
    assert f"{'-' * 43}\nBatch: 0\n{'-' * 43}\n+---+---+\n|a  |x  |\n+---+---+\n" in said
    assert "only showing top 1 row" in said


def test_noop(writer):
    query = writer.format("noop").start()
    assert query.awaitTermination(120)
    assert query.lastProgress["batchId"] == 0


def test_memory(spark, joined, writer, source):
    query = writer.trigger(processingTime="0 seconds").format("memory").queryName("seen").start()
    try:
        query.processAllAvailable()
        assert rows_in(spark.table("seen")) == ROWS[:2]
        put(source, 1, table(PARTS[1]))
        query.processAllAvailable()
        assert rows_in(spark.sql("SELECT * FROM seen WHERE a > 0")) == ROWS
    finally:
        query.stop()
        spark.catalog.dropTempView("seen")
    with pytest.raises(UsageError, match=r"rows of format memory end .* new checkpointLocation"):
        writer.start()


def test_memory_beyond_a_micro_batch_without_rows(spark, tmp_path):
    for side in "ab":
        (tmp_path / side).mkdir()
        put(tmp_path / side, 0, table(PARTS[0]))
    joined = stream(spark, TEXT, {side: stream_of(spark, tmp_path / side) for side in "ab"})
    writer = joined.writeStream.format("memory").queryName("kept")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for side in "ab":  # a's row alone gives none
            query.processAllAvailable()
            put(tmp_path / side, 1, table(PARTS[1]))
        query.processAllAvailable()
        assert rows_in(spark.table("kept")) == ROWS
    finally:
        query.stop()
        spark.catalog.dropTempView("kept")


@pytest.mark.parametrize("form", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
def test_a_table_over_files(spark, writer, source, tmp_path, form):
    path = str(tmp_path / "out")
    writer = writer.trigger(processingTime="0 seconds").format(form).partitionBy("x")
    writer = writer.option("path", path)
    try:
        query = writer.toTable("near_rows")
        query.processAllAvailable()
        assert rows_in(spark.table("near_rows")) == ROWS[:2]
        put(source, 1, table(PARTS[1]))
        query.processAllAvailable()
        query.stop()
        assert rows_in(spark.table("near_rows")) == ROWS
        # The two sources may see the second file in one micro-batch, or in two.
        (second,) = (tmp_path / "out").glob("batch=*/x=2")
        number = int(second.parent.name.removeprefix("batch="))
        counted = spark.sql("SELECT batch, count(*) AS n FROM near_rows GROUP BY batch").collect()
        assert sorted((row["batch"], row["n"]) for row in counted) == [(0, 2), (number, 1)]
        # A repeated batch replaces its rows; the table goes on.
        commits = tmp_path / "checkpoint" / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)
        assert writer.trigger(availableNow=True).toTable("near_rows").awaitTermination(120)
        assert rows_in(spark.table("near_rows")) == ROWS
        spark.sql("DROP TABLE near_rows")
        spark.sql("CREATE TABLE near_rows (a long) USING parquet")
        with pytest.raises(UsageError, match="signs that Spark's tables take for patterns"):
            writer.option("path", str(tmp_path / "out [1]")).toTable("near_rows")
        with pytest.raises(UsageError, match=r"table near_rows is there, and lies in .*; choose"):
            writer.option("path", path).toTable("near_rows")
    finally:
        spark.sql("DROP TABLE IF EXISTS near_rows")


def test_a_table_of_the_sessions_own(spark, writer, source, tmp_path):
    """Without a path it lies where the session keeps its tables."""
    try:
        assert writer.toTable("own_rows").awaitTermination(120)
        assert rows_in(spark.table("own_rows")) == ROWS[:2]
        put(source, 1, table(PARTS[1]))
        assert writer.toTable("own_rows").awaitTermination(120)
        assert rows_in(spark.table("own_rows")) == ROWS
        kind = {r[0]: r[1] for r in spark.sql("DESCRIBE EXTENDED own_rows").collect()}
        assert (kind["Type"], kind["Provider"]) == ("MANAGED", "parquet")
        other = writer.option("checkpointLocation", str(tmp_path / "other"))
        with pytest.raises(UsageError, match="has the output of another query"):
            other.toTable("own_rows")
        other = other.option("path", "")
        del other._options["path"]
        with pytest.raises(UsageError, match="own_rows is there, and is no table of format csv"):
            other.format("csv").toTable("own_rows")
        assert rows_in(spark.table("own_rows")) == ROWS
    finally:
        spark.sql("DROP TABLE IF EXISTS own_rows")


def test_a_delta_table_that_spark_cannot_read(writer, tmp_path):
    pytest.importorskip("deltalake", reason="needs pip install 'penstock[delta]'")
    writer = writer.format("delta").option("path", str(tmp_path / "out"))
    with pytest.raises(UsageError, match=r"no data source delta, since Delta's JARs are missing"):
        writer.toTable("near_rows")
