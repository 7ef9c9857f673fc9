"""Small batch joins: the jobs that they run, and what a worker compiles and imports for one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.serializers import CloudPickleSerializer

from penstock.plan.query import LEFT, RIGHT
from penstock.query.options import QueryOptions
from penstock.spark_bridge import explain, sql
from penstock.spark_bridge.batch.shard import ShardJoin
from penstock.spark_bridge.compiled import Compiled
from penstock.spark_bridge.conf import Conf
from penstock.spark_bridge.devices import DeviceChoice
from tests.spark_bridge.kit.batch import check

KEY = "spark.penstock.batch.laneRows"
TIME = {"a": "t", "b": "t"}
QUERY = (
    "SELECT a.n AS i, b.n AS j FROM a JOIN b ON abs(a.x - b.x) < 3 "
    "AND b.t BETWEEN a.t - 20 AND a.t + 20"
)
#: What a task needs none of.
UNUSED = {"duckdb", "matplotlib", "rich", "typer"}


def rows(count: int) -> pa.Table:
    numbers = range(count)
    columns = {"n": numbers, "t": [7 * n % 300 for n in numbers], "x": [n % 11 for n in numbers]}
    return pa.table({name: pa.array(own, pa.int64()) for name, own in columns.items()})


@pytest.fixture(scope="module")
def files(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    found = {}
    for name, count in (("a", 300), ("b", 500)):
        pq.write_table(rows(count), folder / f"{name}.parquet")
        found[name] = spark.read.parquet(str(folder / f"{name}.parquet"))
    return found


def jobs(spark) -> set[int]:
    """Jobs of this session, of no group."""
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


@pytest.mark.parametrize("kind", [pytest.param("JOIN", marks=pytest.mark.slow), "FULL JOIN"])
def test_a_small_join_counts_nothing(spark, files, kind):
    query = QUERY.replace("JOIN", kind)
    assert "1 lane: Spark estimates that both sides have" in explain(spark, query, files, time=TIME)
    before = jobs(spark)
    joined = sql(spark, query, files, time=TIME)
    assert jobs(spark) == before
    joined.write.format("noop").mode("overwrite").save()
    assert len(jobs(spark) - before) == 1
    assert check(spark, query, files, time=TIME)


def test_places_of_rows_survive(spark, files):
    query = "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.x < b.x"
    parts = {name: frame.union(frame) for name, frame in files.items()}
    assert "Spark estimates" in explain(spark, query, parts, time=TIME, rows={"a": 5, "b": 7})
    assert check(spark, query, parts, time=TIME, rows={"a": 5, "b": 7})


def test_expensive_inputs_keep_their_tasks(spark, files):
    """One task should not compute for all."""
    plan = sql(spark, QUERY, {**files, "b": files["b"].distinct()}, time=TIME)
    before = jobs(spark)
    plan.write.format("noop").mode("overwrite").save()
    assert len(jobs(spark) - before) > 1


def test_rows_of_unknown_size_are_probed(spark):
    frames = {
        name: spark.createDataFrame(rows(count).to_pylist(), "n long, t long, x long")
        for name, count in (("a", 300), ("b", 500))
    }
    assert "1 lane: both sides have 800 rows together" in explain(spark, QUERY, frames, time=TIME)
    assert check(spark, QUERY, frames, time=TIME)
    with lane_rows(spark, 16 * 799):
        assert "have" not in explain(spark, QUERY, frames, time=TIME)


@contextmanager
def lane_rows(spark, count: int) -> Iterator[None]:
    spark.conf.set(KEY, str(count))
    try:
        yield
    finally:
        spark.conf.unset(KEY)


def test_large_inputs_are_counted(spark, files):
    with lane_rows(spark, 20):
        assert "3 lanes: 3 slices" in explain(spark, QUERY, files, time=TIME)


@pytest.mark.slow
@pytest.mark.parametrize("from_nothing", [False, True])
def test_a_worker_compiles_once_and_imports_little(tmp_path, from_nothing):
    """A second worker, another process, finds the machine code of the first one."""
    env = {**os.environ, **({"PENSTOCK_CACHE_DIR": str(tmp_path)} if from_nothing else {})}
    tables = {"a": rows(300), "b": rows(500)}
    slots = {name: name for name in ("n", "t", "x")}
    compiled = Compiled(
        QUERY, {name: own.schema for name, own in tables.items()}, QueryOptions(time=TIME)
    )
    output, conf = pa.schema([("i", pa.int64()), ("j", pa.int64())]), Conf()
    device = DeviceChoice.read("cpu", None, conf)
    join = ShardJoin(compiled, LEFT, {LEFT: slots, RIGHT: slots}, output, device, conf)
    batches = [
        table.append_column("streamed", pa.array([name == "b"] * table.num_rows)).to_batches()[0]
        for name, table in tables.items()
    ]
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark_bridge.kit.shard_app"],
            input=CloudPickleSerializer().dumps((join, batches)),
            env=env,
            capture_output=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr.decode()
        found.append(json.loads(done.stdout))
    assert found[0]["rows"] == found[1]["rows"] > 0
    assert found[0]["compiled"] or not from_nothing
    assert found[1]["compiled"] == []
    assert not UNUSED & set(found[1]["modules"])
