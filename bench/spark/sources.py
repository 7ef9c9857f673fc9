"""Rows per second of the data sources: ``python -m bench.spark.sources [--rows N]``.

Each source runs in micro-batches into ``noop``, beside Spark's own files; the median of the
micro-batches after the first is told. Rows are of 24 bytes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from penstock.errors import PenstockError
from penstock.sim.local_spark.local_session import local_session
from penstock.spark_bridge.sources import register

BATCHES = 5


def files(folder: Path, rows: int) -> Path:
    """One file per micro-batch, for Spark's source; the replay plays the folder."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    for k in range(BATCHES):
        number = np.arange(k * rows, (k + 1) * rows)
        x = rng.integers(0, 1 << 20, rows)
        table = pa.table({"n": number, "t": number // 10, "x": x})
        pq.write_table(table, folder / f"{k:04}.parquet", row_group_size=1 << 18)
    return folder


def source(spark: SparkSession, kind: str, folder: Path, rows: int) -> DataFrame:
    if kind == "parquet":
        reader = spark.readStream.schema("n long, t long, x long")
        return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
    reader = spark.readStream.format("penstock_replay").option("rowsPerBatch", rows)
    if kind.endswith("disorder"):
        reader = reader.option("time", "t").option("disorder", 1000)
    return reader.load(str(folder))


def rate(spark: SparkSession, kind: str, folder: Path, rows: int, checkpoint: Path) -> float:
    """Rows per second of a source."""
    writer = source(spark, kind, folder, rows).writeStream.format("noop")
    query = writer.trigger(availableNow=True).start(checkpointLocation=str(checkpoint))
    if not query.awaitTermination(1800):
        raise PenstockError(f"{kind} took more than half an hour; give fewer --rows")
    took = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress]
    return rows / median(took[1:])


def main() -> None:
    """Print a table of figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of a micro-batch")
    rows = parser.parse_args().rows
    table = Table("source", "rows/s", title=f"{rows:,} rows per micro-batch")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = files(Path(name, "rows"), rows)
        spark = local_session("penstock bench")
        register(spark)
        for k, kind in enumerate(("parquet", "penstock_replay", "penstock_replay, disorder")):
            rows_s = rate(spark, kind, folder, rows, Path(name, str(k)))
            table.add_row(kind, f"{rows_s:,.0f}")
        spark.stop()
    Console().print(table)


if __name__ == "__main__":
    main()
