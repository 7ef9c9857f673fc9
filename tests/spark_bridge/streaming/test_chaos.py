"""Exactly once, whatever is killed; `make chaos` kills more."""

from __future__ import annotations

import time
from random import Random

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import MissingToolError
from penstock.spark_bridge import stream
from penstock.spark_bridge.java import ensure_java
from tests.spark_bridge.kit.apps import put_rest
from tests.spark_bridge.kit.chaos import Chaos
from tests.spark_bridge.kit.chaos_app import QUERIES
from tests.spark_bridge.kit.outcome import Outcome
from tests.spark_bridge.kit.processes import command, kill, tree
from tests.spark_bridge.kit.streams import cut, drawn, stream_of, table, written


@pytest.fixture(autouse=True)
def java():
    try:
        ensure_java()
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("design", "master", "targets"),
    [
        pytest.param("keys", "local[2,3]", ["driver"], marks=pytest.mark.slow),
        pytest.param("files", "local[2,3]", ["driver"], marks=pytest.mark.slow),
        pytest.param("groups", "local[2,3]", ["driver"], marks=pytest.mark.slow),
        pytest.param("delta", "local[2,3]", ["worker", "driver"], marks=pytest.mark.slow),
        pytest.param("lookup", "local[2,3]", ["worker", "driver"], marks=pytest.mark.slow),
        pytest.param("files", "local[2,3]", ["server", "driver"], marks=pytest.mark.slow),
        pytest.param(
            "lookup",
            "local-cluster[2,1,1024]",
            ["executor", "server", "worker", "driver"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_row_once(tmp_path, design, master, targets):
    """``keys`` is two streams with lanes that own keys."""
    chaos = Chaos(tmp_path, design, master)
    if design == "keys":
        chaos = Chaos(tmp_path, "files", master, partitioning="keys")
    chaos.run(targets)
    found = chaos.outcome()
    assert found == Outcome(found.rows, lost=0, doubled=0)
    assert found.rows > 0
    assert "driver" in chaos.killed
    assert chaos.starts >= 2


def test_workers_that_are_killed(spark, tmp_path, monkeypatch):
    """In the session that all tests have, one of Spark's Python workers in each batch."""
    monkeypatch.setattr("penstock.spark_bridge.streaming.microbatch.PAIRS_PER_SHARD", 100)
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    sides = {side: cut(drawn(k, 90, disorder=5), 3) for k, side in enumerate("ab")}
    for side, parts in sides.items():
        written(tmp_path / side, [table(part) for part in parts])
    tables = {side: stream_of(spark, tmp_path / side) for side in sides}
    joined = stream(spark, QUERIES["groups"], tables, lanes=2)
    writer = joined.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "output"))
    rng, ended, killed = Random(0), 0, 0
    while query.isActive:
        time.sleep(0.05)
        if (now := len(list(tmp_path.glob("checkpoint/commits/[0-9]*")))) > ended:
            time.sleep(rng.uniform(0, 0.5))
            victims = [pid for pid in tree(jvm) if "pyspark.daemon" in command(pid)]
            kill(rng.sample(victims, min(1, len(victims))))
            ended, killed = now, killed + bool(victims)
    assert query.awaitTermination(1)
    put_rest(joined, tmp_path)
    found = Outcome.of(tmp_path, QUERIES["groups"], sides)
    assert found == Outcome(found.rows, lost=0, doubled=0)
    assert found.rows > 0
    assert killed
