"""Queries over real data whose exact results are known; see PENSTOCK_DATA in docs/spark.md."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

import numpy as np
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
    pairs = joined.toArrow()
    assert pairs.num_rows == expected["matches"]
    left, right = (pairs.column(c).to_numpy().astype(np.uint64) for c in ("i", "j"))
    with np.errstate(over="ignore"):
        mixed = (left + 1) * np.uint64(0x9E3779B97F4A7C15) ^ (right + 1) * np.uint64(
            0xC2B2AE3D27D4EB4F
        )
        assert f"{int(mixed.sum(dtype=np.uint64)):016x}" == expected["checksum"]


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
