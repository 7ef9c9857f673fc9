"""Queries over real streams, micro-batch by micro-batch, whose exact results are known.

PENSTOCK_DATA names their folder; see docs/spark/tables.md.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.host.routing.moves_plan import PLANNERS
from penstock.spark_bridge import stream
from tests.kit.effort import effort
from tests.spark_bridge.kit.answers import (
    ROWS,
    TIMED,
    Answer,
    arrivals,
    needs_data,
    options_of,
    text_of,
)
from tests.spark_bridge.kit.planners import at_random
from tests.spark_bridge.kit.streams import written

pytestmark = needs_data


def parts(whole: pa.Table, batches: int) -> list[pa.Table]:
    """Neighbours of about one size."""
    ends = [whole.num_rows * k // batches for k in range(batches + 1)]
    return [whole.slice(a, b - a) for a, b in pairwise(ends)]


def played(
    spark, folder: Path, name: str, batches: int, lanes: int, partitioning: str = "rows"
) -> None:
    """Run a query in micro-batches, and compare what leaves with its known answer."""
    whole, disorder = arrivals(name)
    tables = {}
    for alias, own in whole.items():
        files = parts(own, batches)
        path = written(folder / alias, files)
        source = spark.readStream.schema(spark.read.parquet(str(path)).schema)
        tables[alias] = source.option("maxFilesPerTrigger", 1).parquet(str(path))
    options = {**options_of(name), "disorder": disorder, "lanes": lanes}
    joined = stream(spark, text_of(name), tables, partitioning=partitioning, **options)
    answer, checkpoint = Answer(), str(folder / "checkpoint")
    writer = joined.writeStream.foreachBatch(answer).trigger(availableNow=True)
    assert writer.option("checkpointLocation", checkpoint).start().awaitTermination(3600)
    assert answer.batches >= batches
    answer(joined.remaining(checkpoint), -1)
    answer.check(name)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """As many lanes as are asked for."""
    monkeypatch.setattr("penstock.spark_bridge.streaming.microbatch.PAIRS_PER_SHARD", 1)


@pytest.mark.slow
def test_one_known_answer(spark, tmp_path):
    played(spark, tmp_path, "S2", effort(20, 8), 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [*TIMED, *ROWS])
@pytest.mark.parametrize("lanes", [5, 2, 1])
def test_every_known_answer(spark, tmp_path, name, lanes):
    played(spark, tmp_path, name, 20, lanes)


#: Queries with an equality, and with a band.
KEYED = ("B1", "Z1", "Z2", "G1", "G3", "S2", "N2", "U1", "U2", "A1")


@pytest.mark.slow
def test_one_known_answer_by_keys(spark, tmp_path):
    played(spark, tmp_path, "S2", 8, 5, "keys")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("planner", ["random", "mnrt", "qmmp", "hash"])
def test_every_known_answer_by_keys(spark, tmp_path, monkeypatch, name, planner):
    if planner == "random":
        monkeypatch.setitem(PLANNERS, "mnrt", at_random(np.random.default_rng()))
    spark.conf.set("spark.penstock.routing.planner", planner.replace("random", "mnrt"))
    try:
        for lanes in (8, 5, 2, 1):
            played(spark, tmp_path / str(lanes), name, 10, lanes, "keys")
    finally:
        spark.conf.unset("spark.penstock.routing.planner")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["Z2", "U3"])
def test_many_micro_batches(spark, tmp_path, name):
    played(spark, tmp_path, name, 200, 2)
