"""What benchmarks of streaming joins share: rows, sources, times, and how many pairs there are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.errors import PenstockError

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DDL = "n int, t long, x int, y int"
#: Coordinates lie below this; with it, a pair in some 10 million is nearer than NEAR.
SPACE, NEAR = 1 << 20, 256
THETA = f"abs(a.x - b.x) + abs(a.y - b.y) < {NEAR}"


def points(seed: int, count: int, first: int = 0) -> pa.Table:
    """Rows at random places, one per unit of time."""
    rng = np.random.default_rng(seed)
    number = np.arange(first, first + count)
    x, y = (rng.integers(0, SPACE, count).astype(np.int32) for _ in range(2))
    return pa.table({"n": number.astype(np.int32), "t": number, "x": x, "y": y})


def source(
    spark: SparkSession, folder: Path, parts: Sequence[pa.Table], ddl: str = DDL
) -> DataFrame:
    """A stream of one part per micro-batch."""
    folder.mkdir(parents=True)
    for k, part in enumerate(parts):
        pq.write_table(part, folder / f"{k:04}.parquet")
        os.utime(folder / f"{k:04}.parquet", (1e9 + k, 1e9 + k))
    return spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(writer: Any, folder: Path) -> StreamingQuery:
    """Run a query to its end."""
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "output"))
    query.awaitTermination()
    return query


def seconds(writer: Any, folder: Path) -> list[float]:
    """Run a query to its end; seconds of each micro-batch."""
    return [p["durationMs"]["triggerExecution"] / 1000 for p in run(writer, folder).recentProgress]


def pairs_of(near: pa.Table, window: pa.Table) -> int:
    """Pairs that join: both sides sorted by x, then a band of x for each row."""
    x, y = (window.column(c).to_numpy().astype(np.int64) for c in ("x", "y"))
    order = np.argsort(x)
    x, y = x[order], y[order]
    found = 0
    for a, b in zip(near.column("x").to_pylist(), near.column("y").to_pylist(), strict=True):
        low, high = np.searchsorted(x, [a - NEAR, a + NEAR + 1])
        found += int((np.abs(x[low:high] - a) + np.abs(y[low:high] - b) < NEAR).sum())
    return found


def agree(found: int, expected: int, who: str) -> None:
    """See that a contender found as many pairs as NumPy.

    Raises
    ------
    PenstockError
    """
    if found != expected:
        raise PenstockError(f"{who} finds {found} pairs, and NumPy {expected}; one is wrong")
