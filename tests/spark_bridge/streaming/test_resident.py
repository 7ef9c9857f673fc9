"""Windows that stay in a device server between micro-batches: the same rows, the increment only."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.residents import Gone
from penstock.spark_bridge import stream
from penstock.spark_bridge.streaming import compaction
from tests.host.kit.serving import SERVER, serving, socket_address
from tests.kit.effort import effort
from tests.penstock.kit.devices import InterpretingCpu
from tests.spark_bridge.kit.streams import rows_of, stream_of, table, written

FAR = "b.t BETWEEN a.t - INTERVAL 900 SECONDS AND a.t + INTERVAL 900 SECONDS"
INNER = f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x <= b.x AND {FAR}"
BATCHES, ROWS = effort(4, 3), 20


def sides(spark, folder):
    """Sources with a file per micro-batch, and their tables."""
    rows = {
        side: [(n, n, (n * factor) % 11) for n in range(BATCHES * ROWS)]
        for side, factor in (("a", 3), ("b", 7))
    }
    for side, own in rows.items():
        written(folder / side, [table(own[k : k + ROWS]) for k in range(0, len(own), ROWS)])
    return {s: stream_of(spark, folder / s) for s in rows}, {s: table(r) for s, r in rows.items()}


def played(spark, folder, address, *, before=None):
    """Run the join on a server's device; its rows, and those of the join of the tables."""
    sources, whole = sides(spark, folder / "in")
    options = {"device": "remote", "device_options": {"address": address}, "pruning": False}
    joined = stream(spark, INNER, sources, lanes=2, **options)
    writer = joined.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if before is not None:
        writer = writer.foreachBatch(before(folder / "output"))
    query = writer.start(str(folder / "output"))
    assert query.awaitTermination(240)
    found = spark.read.schema(joined.schema).parquet(str(folder / "output")).toArrow()
    expected = penstock.sql(INNER, whole)
    assert rows_of(found, ["a", "b"]) == rows_of(expected, ["a", "b"])


@pytest.fixture
def many_lanes(monkeypatch):
    monkeypatch.setattr("penstock.spark_bridge.streaming.microbatch.PAIRS_PER_SHARD", 10)


def test_only_the_increment_travels(spark, tmp_path, many_lanes):
    """Two lanes in two workers, some micro-batches: each row comes once, none twice."""
    with serving({"cpu": InterpretingCpu(1)}) as server:
        played(spark, tmp_path, str(server.address))
        owner = server.owners["cpu"]
        # Left rows are met by the right rows of later batches: those of the last one by none.
        assert owner.counters["window_rows"] == ROWS * (2 * BATCHES - 1)
        assert owner.residents.counts["loads"] == 2 * BATCHES - 1
        assert not owner.residents.dropped


@pytest.mark.slow
def test_without_residence_the_window_travels(spark, tmp_path, many_lanes):
    spark.conf.set("spark.penstock.streaming.resident", "false")
    try:
        with serving({"cpu": InterpretingCpu(1)}) as server:
            played(spark, tmp_path, str(server.address))
            owner = server.owners["cpu"]
            assert owner.counters["window_rows"] > 2 * ROWS * (2 * BATCHES - 1)
            assert owner.residents.counts["loads"] == 0
    finally:
        spark.conf.unset("spark.penstock.streaming.resident")


@pytest.mark.slow
def test_eviction_by_little_memory(spark, tmp_path, many_lanes, monkeypatch):
    """Room for a few windows: others go, and come again; files are merged, too."""
    monkeypatch.setattr(compaction, "MOST_FILES", 3)
    limits = ServerLimits(memory_bytes=8 * ROWS, client_memory_bytes=8 * ROWS)
    with serving({"cpu": InterpretingCpu(1)}, limits) as server:
        played(spark, tmp_path, str(server.address))
        assert server.owners["cpu"].residents.dropped[Gone.MEMORY] > 0


@pytest.mark.slow
def test_a_server_that_is_killed_between_batches(spark, tmp_path, many_lanes):
    """Spark runs the tasks again; they load the window into the next server."""
    with socket_address() as address, servers(address) as restart:
        played(spark, tmp_path, address, before=killing(restart))


def killing(restart):
    """A sink that kills the server before it takes the rows of the second batch."""

    def made(folder: Path):
        def sink(rows, batch: int) -> None:
            if batch == 2:
                restart()
            rows.write.mode("overwrite").parquet(f"{folder}/batch={batch}")

        return sink

    return made


@contextmanager
def servers(address: str):
    """A server in a process; gives what kills it and starts another one."""
    running: list[subprocess.Popen[str]] = []

    def start() -> None:
        if running:
            running[-1].kill()
            running[-1].wait(30)
        command = [sys.executable, "-c", SERVER, address]
        root = Path(__file__).parents[3]
        running.append(subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True))
        assert running[-1].stdout is not None
        assert running[-1].stdout.readline().strip() == "serving"

    start()
    try:
        yield start
    finally:
        for one in running:
            one.kill()
            one.communicate(timeout=30)
