"""Joins whose files are objects, in the S3 server of moto: a server that other clients trust."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.errors import FileError, UsageError
from penstock.host.join.step import RowBlock
from penstock.plan.query import LEFT, RIGHT
from penstock.spark_bridge import stream
from penstock.spark_bridge.streaming import compaction
from penstock.spark_bridge.streaming.commit import BatchRecord, StoredFile
from penstock.spark_bridge.streaming.place import QueryPlace
from penstock.spark_bridge.streaming.store import TIME, Store, file_store
from tests.kit.effort import effort
from tests.spark_bridge.kit.failing_store import FailingStore
from tests.spark_bridge.kit.streams import cut, drawn, rows_of, stream_of, table, written

NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"
TEXT = f"SELECT a.n AS a, b.n AS b FROM a FULL JOIN b ON {NEAR}"
ROOT = Path(__file__).parents[3]


def rows(*times: int) -> pa.Table:
    schema = pa.schema([pa.field(TIME, pa.int64(), nullable=False), pa.field("x", pa.int32())])
    return pa.table([pa.array(times, pa.int64()), list(range(len(times)))], schema=schema)


def added(store: Store, batch: int, *times: int) -> StoredFile:
    return store.add(batch, rows(*times), RowBlock(len(times), times[0], times[-1]))


def test_stores_that_cannot_be_written(object_server, tmp_path):
    with pytest.raises(UsageError, match=r"ftp://host/a is no path of a file system.*s3://"):
        file_store("ftp://user:secret@host/a?option=1")
    missing = Store(f"s3://nowhere/join?{object_server}")
    assert missing.shown == "s3://nowhere/join"
    with pytest.raises(FileError, match=r"cannot write s3://nowhere/join/query.json.*bucket is"):
        missing.put_query({})


def test_objects_that_are_lost(object_location):
    store = Store(object_location)
    file = added(store, 0, 1, 3, 3, 7)
    assert store.between(file, 3, 6).to_pydict() == {"x": [1, 2]}
    commit = BatchRecord(batch=0, new={LEFT: [file], RIGHT: []})
    store.put(commit)
    assert store.latest() == commit
    store.check(commit)
    store.files.remove([f"rows/{file.name}"])
    store.files.remove([f"rows/{file.name}"])  # twice is as good as once
    with pytest.raises(FileError, match=r"s3://.* is gone; restore"):
        store.check(commit)
    with pytest.raises(FileError, match=r"s3://.* is gone; restore"):
        store.read(file)
    store.files.remove(["batches/0.json"])
    with pytest.raises(FileError, match=r"batches/0.json is gone; restore"):
        store.latest()


def test_objects_that_are_not_what_was_written(object_location):
    store = Store(object_location)
    file, other = added(store, 0, 1, 3), added(store, 0, 2, 4)
    assert file.bytes == other.bytes
    content = store.files.get(f"rows/{other.name}")
    store.files.put(f"rows/{file.name}", content)
    with pytest.raises(FileError, match=r"s3://.* is not what was written: its checksum"):
        store.read(file)
    for batch in (0, 1):
        store.put(BatchRecord(batch=batch))
    record = store.files.get("batches/0.json")
    store.files.put("batches/1.json", record)
    with pytest.raises(FileError, match=r"batches/1.json .*it is a copy of batches/0.json"):
        store.latest()


def test_a_note_of_the_latest_batch_that_is_one_behind(object_location):
    store = Store(object_location)
    assert store.latest() is None
    commits = [BatchRecord(batch=k) for k in range(3)]
    store.files.put_json("batches/0.json", commits[0].as_json())
    assert store.latest() == commits[0]  # the driver was killed before it took note
    store.put(commits[1])
    store.files.put_json("batches/2.json", commits[2].as_json())
    assert store.latest() == commits[2]


def test_two_attempts_of_a_task(object_location):
    """Speculation: both write all there is, and the driver goes by what it is told first."""
    store = Store(object_location)
    found = []
    for times in ((1, 2), (1, 2)):
        file = added(store, 4, *times)
        found.append((file, store.report(0, [{"file": file.name}])))
    (taken, first), (other, second) = found
    assert first != second
    alone = store.report(1, [{"file": "x"}])
    told = store.reports([first, alone, second])
    assert told == {0: [{"file": taken.name}], 1: [{"file": "x"}]}
    later = added(store, 5, 9)
    commit = BatchRecord(batch=4, new={LEFT: [taken], RIGHT: []})
    store.put(commit)
    store.clean(commit, BatchRecord(batch=3))
    assert set(store.files.names("rows")) == {taken.name, later.name}
    assert store.files.size(f"rows/{other.name}") is None


def test_a_listing_that_shows_nothing(object_location, monkeypatch):
    """What a join reads it knows by name."""
    store = Store(object_location)
    files = [added(store, k, k) for k in range(2)]
    commits = [BatchRecord(batch=k, new={LEFT: [files[k]], RIGHT: []}) for k in range(2)]
    for commit in commits:
        store.put(commit)
    monkeypatch.setattr(type(store.files), "names", lambda self, folder: [])
    assert store.latest() == commits[1]
    store.clean(commits[1], commits[0])
    store.check(commits[0])
    store.check(commits[1])


def streams(spark, folder, batches):
    sides = {k: cut(drawn(seed, 30 * batches, disorder=5), batches) for seed, k in enumerate("ab")}
    for side, own in sides.items():
        written(folder / side, [table(part) for part in own])
    whole = {k: table([r for part in own for r in part]) for k, own in sides.items()}
    return {side: stream_of(spark, folder / side) for side in sides}, whole


def test_a_stream_whose_tasks_fail(spark, tmp_path, object_location, monkeypatch):
    """First attempts fail after they have written all, manifest included."""
    monkeypatch.setattr(compaction, "MOST_FILES", effort(3, 1))
    monkeypatch.setattr("penstock.spark_bridge.streaming.microbatch.PAIRS_PER_SHARD", 100)
    tables, whole = streams(spark, tmp_path, effort(4, 2))
    joined = stream(spark, TEXT, tables, lanes=2)
    # The environment of workers that run already has no credentials.
    place = object_location.replace("s3://", "s3://test:test@")
    monkeypatch.setattr("penstock.spark_bridge.streaming.place.Store", FailingStore)
    checkpoint = str(tmp_path / "checkpoint")
    found = {}

    def keep(rows, batch):
        found[batch] = rows.toArrow()

    writer = joined.writeStream.foreachBatch(keep).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", checkpoint).option("storeLocation", place)
    assert writer.start().awaitTermination(500)
    keep(joined.remaining(checkpoint, place), -1)
    expected = rows_of(penstock.sql(TEXT, whole), ["a", "b"])
    assert rows_of(pa.concat_tables(found.values()), ["a", "b"]) == expected
    store = QueryPlace(checkpoint, place).store
    latest = store.latest()
    before = store.commit(latest.batch - 1)
    named = {file.name for one in (latest, before) for file in one.files()}
    assert set(store.files.names("rows")) == named
    assert store.files.names("failed")  # or nothing has been tested
    other = QueryPlace(str(tmp_path / "other"), place)
    with pytest.raises(UsageError, match=r"of another query.*: checkpointLocation `"):
        joined.remaining(other.checkpoint, place)


APP = """
import os, sys
from pathlib import Path
folder, location = Path(sys.argv[1]), sys.argv[2]
from penstock.spark_bridge.java import ensure_java
ensure_java()
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from penstock.spark_bridge import stream
from penstock.spark_bridge.streaming import compaction
from tests.spark_bridge.kit.streams import stream_of
from tests.spark_bridge.streaming.test_objects import TEXT
compaction.MOST_FILES = 4
builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
tables = {side: stream_of(spark, folder / side) for side in "ab"}
joined = stream(spark, TEXT, tables, lanes=2)
checkpoint = str(folder / "checkpoint")
writer = joined.writeStream.option("checkpointLocation", checkpoint)
writer = writer.option("storeLocation", location).trigger(availableNow=True)
writer.start(str(folder / "output")).awaitTermination()
rest = joined.remaining(checkpoint, location)
rest.coalesce(1).write.mode("overwrite").parquet(str(folder / "rest"))
spark.stop()
"""


@pytest.mark.slow
def test_a_driver_that_is_killed(tmp_path, object_location):
    batches, sides = 9, {}
    for seed, side in enumerate("ab"):
        sides[side] = cut(drawn(seed, 30 * batches, disorder=5), batches)
        written(tmp_path / side, [table(part) for part in sides[side]])
    commits, kills = tmp_path / "checkpoint" / "commits", 0
    code = None
    while code != 0:
        done = len(list(commits.glob("[0-9]*")))
        app = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", APP, str(tmp_path), object_location],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 300
            while (code := app.poll()) is None:
                assert time.monotonic() < deadline
                # Thrice, each time a little later in a batch.
                if kills < 3 and len(list(commits.glob("[0-9]*"))) >= done + 2:
                    time.sleep(0.2 * kills)
                    os.killpg(app.pid, signal.SIGKILL)
                    kills += 1
                    code = app.wait(60)
                    break
                time.sleep(0.02)
        finally:
            if app.poll() is None:
                os.killpg(app.pid, signal.SIGKILL)
        assert code in (0, -signal.SIGKILL), "the join failed by itself"
    assert kills == 3
    expected = penstock.sql(
        TEXT, {side: table([r for part in own for r in part]) for side, own in sides.items()}
    )
    files = [str(p) for name in ("output", "rest") for p in (tmp_path / name).rglob("*.parquet")]
    files = [name for name in files if "_temporary" not in name]
    found = ds.dataset(files, schema=expected.schema).to_table()
    assert rows_of(found, ["a", "b"]) == rows_of(expected, ["a", "b"])
