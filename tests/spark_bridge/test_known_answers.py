"""Queries over real data whose exact results are known; see PENSTOCK_DATA in docs/spark.md."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge import sql

FOLDER = os.environ.get("PENSTOCK_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="needs the environment variable PENSTOCK_DATA: a folder"
)

TIMED = ("U1", "U2", "A1", "B1", "B2", "Z1", "Z2", "F1", "F2", "F4", "G1", "G3", "S1", "S2", "N2")
ROWS = ("U3", "A2", "F3")


@cache
def facts(name: str) -> dict:
    return json.loads((Path(FOLDER or "") / name).read_text(encoding="utf-8"))


def check(spark, name: str, lanes: int, partitioning: str = "auto") -> None:
    query, expected = facts("queries.json")[name], facts("expected.json")[name]
    tables = {
        alias: spark.read.parquet(str(Path(FOLDER or "") / f"{query[alias]}.parquet"))
        for alias in ("r", "s")
    }
    where = f" WHERE {query['where']}" if query["where"] else ""
    joined = sql(
        spark,
        f"SELECT r.id AS i, s.id AS j FROM r JOIN s ON {query['on']}{where}",
        tables,
        time={"r": query["time"], "s": query["time"]},
        rows=query["rows"],
        lanes=lanes,
        partitioning=partitioning,
    )
    # In the tasks: millions of pairs would fill the memory of the driver.
    parts = joined.mapInArrow(summed, "pairs bigint, checksum bigint").collect()
    total = sum(row["checksum"] for row in parts) % (1 << 64)
    assert sum(row["pairs"] for row in parts) == expected["matches"]
    assert f"{total:016x}" == expected["checksum"]


def summed(batches):
    """Number and checksum of each batch of pairs."""
    for batch in batches:
        left, right = (batch.column(c).to_numpy().astype(np.uint64) for c in ("i", "j"))
        with np.errstate(over="ignore"):
            mixed = (left + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ (
                right + np.uint64(1)
            ) * np.uint64(0xC2B2AE3D27D4EB4F)
            total = mixed.sum(dtype=np.uint64).view(np.int64)
        yield pa.record_batch([[batch.num_rows], [int(total)]], names=["pairs", "checksum"])


@pytest.mark.parametrize(("name", "lanes", "partitioning"), [
    ("Z1", 5, "time"),
    ("S2", 2, "grid"),
    ("U3", 5, "auto"),
])  # fmt: skip
def test_known_answer(spark, name, lanes, partitioning):
    check(spark, name, lanes, partitioning)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 2, 5])
@pytest.mark.parametrize("name", [*TIMED, *ROWS])
def test_every_known_answer(spark, name, lanes):
    check(spark, name, lanes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["B1", "N2", "G3"])
def test_known_answers_of_a_grid(spark, name):
    check(spark, name, 5, "grid")
