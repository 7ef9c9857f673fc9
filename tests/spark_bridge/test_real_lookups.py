"""Real streams that look rows up in Spark, as a batch and as a stream, beside DuckDB's rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.spark_bridge import sql
from tests.host.join.lookup.real import JOINS, REAL, Tables, needs_data
from tests.kit.effort import effort
from tests.spark_bridge.kit.streams import written

pytestmark = needs_data

#: Tasks that share the stream's rows; each of them has the memory of the join.
LANES = 2
BATCHES = 3
#: By key, and by scanning a small relation.
SHORT = ("flights", "near")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name in SHORT else pytest.mark.slow) for name in REAL],
)
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tables of a join, in the short run with a part of the stream."""
    name = request.param
    return Tables(name, tmp_path_factory.mktemp(name), effort(1, REAL[name].one_in))


def joined(spark, tables: Tables, frame, join: str):
    return sql(
        spark,
        tables.query(join),
        {"s": frame, "r": penstock.relation(tables.place)},
        lanes=LANES,
        memory_bytes=tables.memory_bytes,
    )


def check_batch(spark, tables: Tables, join: str) -> None:
    frame = spark.read.parquet(str(tables.stream_file))
    tables.check(join, joined(spark, tables, frame, join).toArrow())


def check_stream(spark, folder: Path, tables: Tables, join: str) -> None:
    """A third of the stream in each micro-batch."""
    size = -(-tables.stream.num_rows // BATCHES)
    parts = [tables.stream.slice(at, size) for at in range(0, tables.stream.num_rows, size)]
    files = str(written(folder / "source", parts))
    frame = spark.readStream.schema(spark.read.parquet(files).schema)
    frame = frame.option("maxFilesPerTrigger", 1).parquet(files)
    found: dict[int, pa.Table] = {}
    running = (
        joined(spark, tables, frame, join)
        .writeStream.foreachBatch(lambda rows, batch: found.update({batch: rows.toArrow()}))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert running.awaitTermination(240)
    finally:
        running.stop()
    assert len(found) == len(parts)
    tables.check(join, pa.concat_tables(found.values()))


def test_a_batch(spark, tables):
    check_batch(spark, tables, "left")


def test_a_stream(spark, tmp_path, tables):
    check_stream(spark, tmp_path, tables, "left")


@pytest.mark.slow
@pytest.mark.parametrize("join", [join for join in JOINS if join != "left"])
def test_other_joins(spark, tmp_path, tables, join):
    check_batch(spark, tables, join)
    check_stream(spark, tmp_path, tables, join)
