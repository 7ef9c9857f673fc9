"""What goes wrong while a streaming join runs, said by Spark's error; then it goes on."""

from __future__ import annotations

import re
import resource
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.errors import StreamingQueryException

import penstock
from penstock.errors import FileError
from penstock.spark_bridge import stream
from penstock.spark_bridge.streaming.identity import check_folder
from penstock.spark_bridge.streaming.output_folders import FolderSink
from penstock.spark_bridge.streaming.place import FOLDER, QueryPlace
from tests.spark_bridge.kit.streams import cut, rows_of, stream_of, table, written

TEXT = (
    "SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x = b.x "
    "AND b.t BETWEEN a.t - INTERVAL 1 SECOND AND a.t"
)


def tables_of(spark, folder, rows):
    """Both sides, in two micro-batches."""
    return {
        side: stream_of(spark, written(folder / side, [table(part) for part in cut(own, 2)]))
        for side, own in rows.items()
    }


@contextmanager
def files_of_at_most(spark, size: int):
    """No Python worker can write a larger file."""
    pids = spark.range(0, 64, 1, 8).mapInArrow(_process_ids, "pid long").distinct().collect()
    kind = resource.RLIMIT_FSIZE
    limits = {row["pid"]: resource.prlimit(row["pid"], kind) for row in pids}
    try:
        for pid, (_, hard) in limits.items():
            resource.prlimit(pid, kind, (size, hard))
        yield
    finally:
        for pid, limit in limits.items():
            with suppress(ProcessLookupError):  # a worker whose task has failed may end
                resource.prlimit(pid, kind, limit)


def _process_ids(batches):
    import os

    for _ in batches:
        # The daemon, too: workers to come have its limits.
        yield pa.record_batch([[os.getpid(), os.getppid()]], names=["pid"])


@pytest.mark.slow
def test_a_full_disk(spark, tmp_path):
    rows = {side: [(k, k // 50, k % 9) for k in range(2_000)] for side in "ab"}
    tables = tables_of(spark, tmp_path, rows)
    joined, checkpoint = stream(spark, TEXT, tables, lanes=1), str(tmp_path / "checkpoint")
    found = {}

    def keep(rows, batch):
        found[batch] = rows.toArrow()

    def run() -> None:
        writer = joined.writeStream.foreachBatch(keep).trigger(availableNow=True)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination(120)

    remedy = r"raise the limit .*\(ulimit -f\) and start the query again"
    with files_of_at_most(spark, 4096), pytest.raises(StreamingQueryException, match=remedy):
        run()
    assert not found
    run()
    expected = penstock.sql(TEXT, {side: table(own) for side, own in rows.items()})
    parts = pa.concat_tables(found.values())
    assert rows_of(parts, ["a", "b"]) == rows_of(expected, ["a", "b"])


@contextmanager
def spark_writes_at_most(spark, size: int):
    """Spark itself, without its workers, can write no larger file."""
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    kind = resource.RLIMIT_FSIZE
    before = resource.prlimit(pid, kind)
    try:
        resource.prlimit(pid, kind, (size, before[1]))
        yield
    finally:
        resource.prlimit(pid, kind, before)


@pytest.mark.parametrize(
    ("size", "what"),
    [
        (20, "metadata"),  # written by start()
        # By the query, before its first batch, and by tasks.
        pytest.param(100, "offsets", marks=pytest.mark.slow),
        pytest.param(5000, "output", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_that_spark_finds(spark, tmp_path, size, what):
    rows = {side: [(k, k // 50, k % 9) for k in range(2_000)] for side in "ab"}
    tables = tables_of(spark, tmp_path, rows)
    joined, checkpoint = stream(spark, TEXT, tables, lanes=1), str(tmp_path / "checkpoint")
    output = str(tmp_path / "output")

    def start():
        writer = joined.writeStream.trigger(availableNow=True)
        return writer.option("checkpointLocation", checkpoint).start(output)

    remedy = (
        r"cannot write .*: File too large; (free or add space|raise the limit .*\(ulimit -f\))"
        " and start the query again"
    )
    if what == "metadata":
        FolderSink(output, "parquet").take(spark, check_folder(QueryPlace(checkpoint), joined.spec))
    with spark_writes_at_most(spark, size):
        if what == "metadata":
            with pytest.raises(FileError, match=remedy):
                start()
        else:
            query = start()
            with pytest.raises(StreamingQueryException, match=remedy) as got:
                query.awaitTermination(120)
            # Spark repeats the text of what the sink says; what it finds itself is translated.
            assert "FileError: cannot write" in str(got.value) or isinstance(got.value, FileError)
            assert isinstance(got.value, FileError) == (what == "offsets")
            assert re.search(remedy, str(query.exception()))
    assert start().awaitTermination(120)
    expected = penstock.sql(TEXT, {side: table(own) for side, own in rows.items()})
    assert rows_of(pq.read_table(output), ["a", "b"]) == rows_of(expected, ["a", "b"])


def test_files_that_are_lost(spark, tmp_path):
    # Workers have no copies of their own, as after a restart.
    spark.conf.set("spark.penstock.streaming.resident", "false")
    try:
        lost(spark, tmp_path)
    finally:
        spark.conf.unset("spark.penstock.streaming.resident")


def lost(spark, tmp_path):
    tables = tables_of(spark, tmp_path, {side: [(k, k, 1) for k in range(20)] for side in "ab"})
    joined = stream(spark, TEXT, tables, lanes=1)

    def lose(rows, batch):
        rows.count()
        for path in Path(tmp_path, "checkpoint", FOLDER, "rows").iterdir():
            path.unlink()

    writer = joined.writeStream.foreachBatch(lose).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(StreamingQueryException, match=r"FileError.*restore the folder from a back"):
        query.awaitTermination(120)
