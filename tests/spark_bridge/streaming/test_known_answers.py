"""Queries over real streams, micro-batch by micro-batch, whose exact results are known.

PENSTOCK_DATA names their folder; see docs/spark.md.
"""

from __future__ import annotations

import json
import os
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge.streaming import stream
from tests.spark_bridge.kit.streams import written

FOLDER = os.environ.get("PENSTOCK_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="needs the environment variable PENSTOCK_DATA: a folder"
)
QUERIES = ("U1", "U2", "U3", "A1", "A2", "B1", "B2", "Z1", "Z2", "F1", "F2", "F3", "F4", "G1", "G3",
           "S1", "S2", "N2")  # fmt: skip
#: Microseconds by which the two network logs, in the order of arrival, are out of order at most.
LOG_DISORDER = 400_000_000


@cache
def facts(name: str) -> dict:
    return json.loads(Path(FOLDER or "", name).read_text(encoding="utf-8"))


def played(spark, folder: Path, name: str, batches: int, lanes: int) -> None:
    query = facts("queries.json")[name]
    tables = {}
    for alias in ("r", "s"):
        whole = pq.read_table(Path(FOLDER or "", f"{query[alias]}.parquet"))
        ends = [whole.num_rows * k // batches for k in range(batches + 1)]
        parts = [whole.slice(a, b - a) for a, b in pairwise(ends)]
        path = written(folder / alias, parts)
        source = spark.readStream.schema(spark.read.parquet(str(path)).schema)
        tables[alias] = source.option("maxFilesPerTrigger", 1).parquet(str(path))
    where = f" WHERE {query['where']}" if query["where"] else ""
    text = f"SELECT r.id AS i, s.id AS j FROM r JOIN s ON {query['on']}{where}"
    time = dict.fromkeys("rs", query["time"])
    disorder = LOG_DISORDER if query["r"].startswith("zeek") else 0
    joined = stream(
        spark, text, tables, time=time, rows=query["rows"], disorder=disorder, lanes=lanes
    )
    checkpoint, output = str(folder / "checkpoint"), str(folder / "output")
    writer = joined.writeStream.option("checkpointLocation", checkpoint)
    assert writer.trigger(availableNow=True).start(output).awaitTermination(3600)
    joined.rest(checkpoint).write.parquet(str(folder / "rest"))
    rows, total = 0, np.uint64(0)
    files = [str(p) for name in ("output", "rest") for p in (folder / name).rglob("*.parquet")]
    # Batch by batch: there may be more pairs than fit into memory.
    for pairs in ds.dataset(files).to_batches(columns=["i", "j"]):
        i, j = (pairs.column(c).to_numpy().astype(np.uint64) + np.uint64(1) for c in ("i", "j"))
        mixed = i * np.uint64(0x9E3779B97F4A7C15) ^ j * np.uint64(0xC2B2AE3D27D4EB4F)
        with np.errstate(over="ignore"):
            total += mixed.sum(dtype=np.uint64)
        rows += pairs.num_rows
    expected = facts("expected.json")[name]
    assert rows == expected["matches"]
    assert f"{int(total):016x}" == expected["checksum"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("batches", "lanes"), [(20, 2), (60, 5), (200, 1)])
def test_known_answer(spark, tmp_path, name, batches, lanes):
    played(spark, tmp_path, name, batches, lanes)
