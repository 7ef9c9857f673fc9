"""Folders of output: they belong to one query, whose batches they hold by number."""

from __future__ import annotations

import shutil

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import UsageError
from penstock.spark_bridge import stream
from penstock.spark_bridge.streaming.output_folders import MARKER, FolderSink
from tests.spark_bridge.kit.streams import SCHEMA, stream_of, table, written

TEXT = "SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x = b.x AND b.t BETWEEN a.t AND a.t"


@pytest.fixture
def joined(spark, tmp_path):
    """A join of one micro-batch, which is late in nothing."""
    folder = written(tmp_path / "source", [table([(1, 1, 1), (2, 5, 1)])])
    return stream(spark, TEXT, {side: stream_of(spark, folder) for side in "ab"}, lanes=1)


def writer_of(joined, checkpoint, **options):
    writer = joined.writeStream.trigger(availableNow=True).options(**options)
    return writer.option("checkpointLocation", str(checkpoint))


@pytest.mark.slow
def test_a_path_belongs_to_a_query(spark, tmp_path, joined):
    checkpoint, path = tmp_path / "checkpoint", str(tmp_path / "out [1] {a}")
    assert writer_of(joined, checkpoint).start(path).awaitTermination(120)
    before = {p: p.read_bytes() for p in (tmp_path / "out [1] {a}").rglob("*.parquet")}
    assert before
    # Another checkpoint, of this query or another: its batch 0 would replace this one.
    for other in ("other", "third"):
        with pytest.raises(UsageError, match=r"another query.*choose another path, or remove"):
            writer_of(joined, tmp_path / other).start(path)
    assert {p: p.read_bytes() for p in (tmp_path / "out [1] {a}").rglob("*.parquet")} == before
    # Its own goes on, and readers pass the note over.
    assert writer_of(joined, checkpoint).start(path).awaitTermination(120)
    found = pq.read_table(path)
    assert sorted(found.column("a").to_pylist()) == [1, 2]
    # Removed, it is anyone's; and nothing is between "not there" and "another's".
    shutil.rmtree(path)
    assert writer_of(joined, tmp_path / "other").start(path).awaitTermination(120)
    with pytest.raises(UsageError, match="another query"):
        writer_of(joined, checkpoint).start(path)


def test_folders_that_hold_something_else(spark, tmp_path, joined):
    unknown = tmp_path / "unknown"
    written(unknown / "batch=3", [SCHEMA.empty_table()])
    with pytest.raises(UsageError, match="another query"):
        writer_of(joined, tmp_path / "checkpoint").start(str(unknown))
    # A query that has batches may have written these itself, in a function of its own.
    sink = FolderSink(str(unknown), "parquet")
    sink.take(spark, "mine", is_new=False)
    sink.take(spark, "mine")
    with pytest.raises(UsageError, match="another query"):
        sink.take(spark, "another", is_new=False)
    # Of late rows, too; and not both in one.
    late = tmp_path / "late"
    FolderSink(str(late / "b"), "parquet").take(spark, "another")
    assert (late / "b" / MARKER).is_dir()
    with pytest.raises(UsageError, match=r"late/b has the output of another query"):
        writer_of(joined, tmp_path / "checkpoint", latePath=late).start(str(tmp_path / "out"))
    with pytest.raises(UsageError, match="give another latePath"):
        writer_of(joined, tmp_path / "checkpoint", latePath=late).start(str(late / "a"))
