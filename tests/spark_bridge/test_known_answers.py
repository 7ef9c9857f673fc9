"""Queries over real data whose exact results are known; see PENSTOCK_DATA in docs/spark.md."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge import sql

FOLDER = os.environ.get("PENSTOCK_DATA")


@pytest.mark.skipif(not FOLDER, reason="needs the environment variable PENSTOCK_DATA: a folder")
@pytest.mark.parametrize("name", ["U2", "Z1", "S2"])
def test_known_answer(spark, name):
    folder = Path(FOLDER)
    query = json.loads((folder / "queries.json").read_text())[name]
    expected = json.loads((folder / "expected.json").read_text())[name]
    tables = {
        alias: spark.read.parquet(str(folder / f"{query[alias]}.parquet")) for alias in ("r", "s")
    }
    where = f" WHERE {query['where']}" if query["where"] else ""
    joined = sql(
        spark,
        f"SELECT r.id AS i, s.id AS j FROM r JOIN s ON {query['on']}{where}",
        tables,
        time={"r": query["time"], "s": query["time"]},
        lanes=5,
    )
    pairs = joined.toArrow()
    assert pairs.num_rows == expected["matches"]
    left, right = (pairs.column(c).to_numpy().astype(np.uint64) for c in ("i", "j"))
    with np.errstate(over="ignore"):
        mixed = (left + 1) * np.uint64(0x9E3779B97F4A7C15) ^ (right + 1) * np.uint64(
            0xC2B2AE3D27D4EB4F
        )
        assert f"{int(mixed.sum(dtype=np.uint64)):016x}" == expected["checksum"]
