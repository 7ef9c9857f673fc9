"""Streams that look up rows of a relation: each micro-batch meets one version."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError, UsageError

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.errors import StreamingQueryException

from penstock.host.relation import open_relation
from penstock.host.relation.folder.pins import Pins
from penstock.host.relation.folder.reading import file_store
from penstock.spark_bridge import explain, relation, sql, stream
from penstock.spark_bridge.lookup import versions
from penstock.spark_bridge.lookup.versions import PinnedVersion
from tests.spark_bridge.kit.lookups import (
    DDL,
    QUERIES,
    counted,
    orders,
    renew,
    stored,
)
from tests.spark_bridge.kit.streams import put, stream_of

LEFT = QUERIES["left"]
NAMES = "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id"


class Running:
    """A query over files of orders, one per micro-batch, that writes Parquet."""

    def __init__(self, spark, folder: Path, **options) -> None:
        self.spark, self.folder, self.options = spark, folder, options
        self.source, self.checkpoint = folder / "source", folder / "checkpoint"
        self.output = folder / "output"
        self.source.mkdir(exist_ok=True)
        self.batches = len(list(self.source.iterdir()))

    def add(self, count: int = 60) -> pa.Table:
        made = orders(count, seed=self.batches, first=1000 * self.batches)
        put(self.source, self.batches, made)
        self.batches += 1
        return made

    def frame(self):
        return stream_of(self.spark, self.source, DDL, None).repartition(3)

    def run(self, query: str, table) -> str:
        """Answer all files that are there; returns the query's id."""
        tables = {"orders": self.frame(), "customers": table}
        return self.start(stream(self.spark, query, tables, **self.options))

    def start(self, joined) -> str:
        assert joined.isStreaming
        self.done: list[int] = []

        def keep(rows, batch: int) -> None:
            rows.write.mode("overwrite").parquet(str(self.output / str(batch)))
            self.done.append(batch)

        running = (
            joined.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert running.awaitTermination(240)
        finally:
            running.stop()
        return str(running.id)

    def found(self) -> pa.Table:
        return self.spark.read.parquet(str(self.output / "*")).toArrow()


@pytest.mark.parametrize(
    "kind", [k if k == "groups" else pytest.param(k, marks=pytest.mark.slow) for k in QUERIES]
)
def test_every_kind(spark, tmp_path, kind):
    made = stored(tmp_path / "customers.rel")
    running = Running(spark, tmp_path, unique={"o": "id"})
    rows = pa.concat_tables([running.add(), running.add()])
    running.run(QUERIES[kind], penstock.relation(made.name))
    tables = {"orders": rows, "customers": penstock.relation(made.name)}
    wanted = penstock.sql(QUERIES[kind], tables)
    assert counted(running.found().cast(wanted.schema)) == counted(wanted)


@pytest.mark.slow
def test_a_batch_that_is_repeated_meets_its_version(spark, tmp_path):
    made = stored(tmp_path / "customers.rel")
    table = penstock.relation(made.name)
    running = Running(spark, tmp_path)
    running.add()
    name = running.run(NAMES, table)
    first = counted(running.found())
    renew(made, 2)
    running.add()
    running.run(NAMES, table)
    assert Pins(file_store(made.name)).numbers() == {1, 2}
    both = counted(running.found())
    assert {row.split("'v")[1][0] for row in both - first if "'v" in row} == {"2"}
    # Killed before it had committed its second batch, and the relation changed meanwhile.
    renew(made, 3)
    made.vacuum(keep_s=0)
    (running.checkpoint / "commits" / "1").unlink()
    (running.checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    assert running.run(NAMES, table) == name
    assert running.done == [1]
    assert counted(running.found()) == both
    running.add()
    running.run(NAMES, table)
    assert running.done == [2]
    assert {number for number in (1, 2, 3) if made.version_record(number)} == {1, 2, 3}
    pins = sorted(p.name for p in Path(made.name, "pins", name).iterdir())
    assert pins == ["0", "1", "2"]


@pytest.mark.slow
def test_tasks_that_race_an_update(spark, tmp_path):
    made = stored(tmp_path / "customers.rel")
    running = Running(spark, tmp_path, lanes=5)
    for _ in range(6):
        running.add(200)
    ended = threading.Event()

    def update() -> None:
        version = 2
        while not ended.wait(0.1):  # more versions would only make each task read more
            renew(made, version)
            version += 1

    updating = threading.Thread(target=update)
    updating.start()
    try:
        name = running.run(NAMES, penstock.relation(made.name))
    finally:
        ended.set()
        updating.join()
    met: dict[int, set[str]] = {}
    for row in running.found().to_pylist():
        if row["name"] is not None:
            key = row["id"] // 1000
            keyed = row["name"].split()
            met.setdefault(key, set()).add(keyed[0])
    assert len(met) == 6
    assert all(len(names) == 1 for names in met.values()), met
    pins = {int(p.name): json.loads(p.read_text()) for p in
            Path(made.name, "pins", name).iterdir()}  # fmt: skip
    assert len(pins) == 6
    assert len({frozenset(names) for names in met.values()}) > 1


def test_the_version_of_the_start_and_pins_elsewhere(spark, tmp_path):
    made = stored(tmp_path / "customers.rel")
    table = penstock.relation(made.name, refresh="start")
    pins = tmp_path / "pins elsewhere"
    running = Running(spark, tmp_path, pins=str(pins))
    joined = stream(spark, NAMES, {"orders": running.frame(), "customers": table}, pins=str(pins))
    renew(made, 2)
    running.add()
    query = running.start(joined)
    assert {n.split()[0] for n in running.found()["name"].to_pylist() if n} == {"v1"}
    assert [p.name for p in (pins / "pins" / query).iterdir()] == [f"0-{made.id}"]
    assert not Path(made.name, "pins").exists()
    assert made.vacuum(pins=[str(pins)]).versions == 0


def test_any_sink_and_what_it_costs_to_look_twice(spark, tmp_path):
    made = stored(tmp_path / "customers.rel")
    running = Running(spark, tmp_path)
    rows = running.add()
    tables = {"orders": running.frame(), "customers": penstock.relation(made.name)}
    seen = []

    def keep(frame, batch: int) -> None:
        before = counted(frame.toArrow())
        renew(made, 2)
        seen.append((batch, before, counted(frame.toArrow())))

    query = (
        sql(spark, NAMES, tables)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(running.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    ((batch, before, after),) = seen
    assert batch == 0
    assert before == after
    assert sum(before.values()) >= rows.num_rows


def test_explain(spark, tmp_path):
    made = stored(tmp_path / "customers.rel")
    tables = {"orders": Running(spark, tmp_path).frame(), "customers": penstock.relation(made.name)}
    text = explain(spark, LEFT, tables, lanes=4)
    assert "o is a streaming DataFrame, c a relation" in text
    assert f"{made.name}/pins/<query id>/<batch>" in text
    assert "4, each with the rows whose keys lie in its arc of the hash; lanes=4" in text


def test_what_is_refused(spark, tmp_path):
    made = stored(tmp_path / "customers.rel")
    frame, table = Running(spark, tmp_path).frame(), penstock.relation(made.name)
    tables = {"orders": frame, "customers": table}
    with pytest.raises(QueryError, match=r"never knows .*unique=.*penstock.spark_bridge.stream$"):
        sql(spark, QUERIES["groups"], tables)
    with pytest.raises(UsageError, match="made of a batch DataFrame, not of a stream"):
        relation(spark, frame, tmp_path / "stream.rel", key="id")


@pytest.mark.slow
def test_a_relation_that_is_built_anew(spark, tmp_path):
    made = stored(tmp_path / "customers.rel")
    running = Running(spark, tmp_path)
    running.add()
    tables = {"orders": running.frame(), "customers": penstock.relation(made.name)}
    joined = sql(spark, NAMES, tables)
    shutil.rmtree(made.name)
    stored(Path(made.name))
    query = (
        joined.writeStream.format("noop")
        .option("checkpointLocation", str(running.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match="built anew since the query was planned"):
        query.awaitTermination(240)


# -- without Spark ---------------------------------------------------------------------------------


@pytest.fixture
def in_batch(monkeypatch):
    """Let this process be a task of a micro-batch."""

    def be(query: str | None, batch: int | None) -> None:
        found = {versions.QUERY_ID: query, versions.BATCH_ID: None if batch is None else str(batch)}
        monkeypatch.setattr(versions, "local_property", found.get)

    return be


def pinned(made, **options) -> PinnedVersion:
    return PinnedVersion(
        **{"location": made.name, "pins": None, "number": None, "kept_batches": 3, **options}
    )


def test_a_task_without_its_batch(tmp_path, in_batch):
    made = stored(tmp_path / "customers.rel")
    for query, batch in ((None, 1), ("q", None)):
        in_batch(query, batch)
        with pytest.raises(UsageError, match=r"does not know its micro-batch.*foreachBatch"):
            pinned(made).choose(made, made.id)


def test_the_first_task_decides(tmp_path, in_batch):
    made = stored(tmp_path / "customers.rel")
    choice = pinned(made)
    in_batch("q", 0)
    assert choice.choose(made, made.id) == 1
    renew(made, 2)
    assert choice.choose(open_relation(made.name), made.id) == 1
    in_batch("q", 1)
    assert choice.choose(made, made.id) == 2
    in_batch("other", 0)
    assert choice.choose(made, made.id) == 2


def test_old_pins_go(tmp_path, in_batch):
    made = stored(tmp_path / "customers.rel")
    for batch in range(6):
        in_batch("q", batch)
        pinned(made).choose(made, made.id)
    assert sorted(p.name for p in (tmp_path / "customers.rel/pins/q").iterdir()) == [*"2345"]


def test_a_vacuum_that_was_faster(tmp_path, in_batch, monkeypatch):
    made = stored(tmp_path / "customers.rel")
    renew(made, 2)
    made.vacuum(keep_s=0)
    asked = iter([1, 2])
    monkeypatch.setattr(made, "newest", lambda: next(asked))
    in_batch("q", 0)
    assert pinned(made).choose(made, made.id) == 2


def test_a_place_that_cannot_be_written(tmp_path, in_batch):
    made = stored(tmp_path / "customers.rel")
    (tmp_path / "customers.rel" / "pins").write_text("a file in the way")
    in_batch("q", 0)
    with pytest.raises(penstock.PenstockError, match=r"read-only.*pins="):
        pinned(made).choose(made, made.id)
    assert pinned(made, pins=str(tmp_path / "p")).choose(made, made.id) == 1
