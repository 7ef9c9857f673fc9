"""Streaming joins in Spark: ``python -m bench.spark.streaming [--quick]``.

(a) evaluations per second, end to end, of micro-batches of 60,000 rows against a window of a
    million, pruning off, pairs written, fewer than one pair in a million;
(b) Spark's own work-around for such joins, an equality of constants, at the largest size that it
    finishes in a minute;
(c) rows per second through a small window, of both designs.

Every contender's number of pairs is compared with NumPy's. Times are those of Spark's progress.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from penstock.errors import PenstockError
from penstock.spark_bridge.session import local_session
from penstock.spark_bridge.streaming import stream

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DDL = "n int, t long, x int, y int"
#: Coordinates lie below this; with it, a pair in some 10 million is nearer than NEAR.
SPACE, NEAR = 1 << 20, 256
THETA = f"abs(a.x - b.x) + abs(a.y - b.y) < {NEAR}"
TARGET_RATE, TARGET_RATIO, TARGET_ROWS = 3e10, 1e3, 5e5


def points(seed: int, count: int, first: int = 0) -> pa.Table:
    """Rows at random places, one per unit of time."""
    rng = np.random.default_rng(seed)
    number = np.arange(first, first + count)
    x, y = (rng.integers(0, SPACE, count).astype(np.int32) for _ in range(2))
    return pa.table({"n": number.astype(np.int32), "t": number, "x": x, "y": y})


def source(spark: SparkSession, folder: Path, parts: Sequence[pa.Table]) -> DataFrame:
    """A stream of one part per micro-batch."""
    folder.mkdir(parents=True)
    for k, part in enumerate(parts):
        pq.write_table(part, folder / f"{k:04}.parquet")
        os.utime(folder / f"{k:04}.parquet", (1e9 + k, 1e9 + k))
    return spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder))


def seconds(writer, folder: Path) -> list[float]:
    """Run a query to its end; seconds of each micro-batch."""
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "output"))
    query.awaitTermination()
    return [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress]


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


def against_window(
    spark: SparkSession, folder: Path, window: int, rows: int, batches: int
) -> float:
    """Evaluations per second of the files design."""
    resident = points(1, window)
    new = [points(2 + k, rows, k * rows) for k in range(batches + 1)]
    left = source(spark, folder / "a", new)
    # The window arrives first; a row per batch keeps its source alive.
    right = source(
        spark, folder / "b", [resident, *(points(99 + k, 1, window + k) for k in range(batches))]
    )
    on = f"{THETA} AND b.t BETWEEN a.t - 1000000000 AND a.t + 1000000000"
    joined = stream(
        spark,
        f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {on}",
        {"a": left, "b": right},
        time={"a": "t", "b": "t"},
        disorder=0,
        pruning=False,
    )
    took = seconds(joined.writeStream, folder)
    # The later single rows of b are in a few pairs, too, so only those of the window count.
    output = spark.read.schema(joined.schema).parquet(str(folder / "output"))
    found = output.where(f"b < {window}").count()
    expected = pairs_of(pa.concat_tables(new), resident)
    if found != expected:
        raise PenstockError(f"{found} pairs, and NumPy finds {expected}; one of them is wrong")
    return rows * window / median(took[1:])


def work_around(spark: SparkSession, folder: Path, most_s: float) -> tuple[int, float]:
    """Rows per side and evaluations per second of Spark's join on equal constants."""
    rows, best = 2000, (0, 0.0)
    while True:
        sides = [points(seed, rows) for seed in (1, 2)]
        frames = [
            source(spark, folder / f"{rows}{side}", [part]).selectExpr("1 AS k", "*").alias(side)
            for side, part in zip("ab", sides, strict=True)
        ]
        both = frames[0].join(frames[1], on=_equal(THETA))
        (took,) = seconds(both.selectExpr("a.n AS a", "b.n AS b").writeStream, folder / str(rows))
        found = spark.read.parquet(str(folder / str(rows) / "output")).count()
        if found != pairs_of(*sides):
            raise PenstockError(f"Spark finds {found} pairs, NumPy {pairs_of(*sides)}")
        if best[0] and took > most_s:
            return best
        best = rows, rows * rows / took
        if took * 4 > most_s:
            return best
        rows *= 2


def _equal(theta: str):
    from pyspark.sql import functions as F

    return F.expr(f"a.k = b.k AND {theta}")


def through(spark: SparkSession, folder: Path, design: str, rows: int, batches: int) -> float:
    """Rows per second, of both sides together, through a window of ten rows."""
    parts = [[points(s + k, rows // 2, k * rows // 2) for k in range(batches)] for s in (1, 50)]
    sources = {
        side: source(spark, folder / side, own) for side, own in zip("ab", parts, strict=True)
    }
    joined = stream(
        spark,
        f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {THETA} AND b.t BETWEEN a.t - 5 AND a.t + 5",
        sources,
        time={"a": "t", "b": "t"},
        disorder=0,
        lanes=2,
        design=design,
    )
    return rows / median(seconds(joined.writeStream.format("parquet"), folder)[1:])


def main() -> None:
    """Print a table of figures beside their targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    quick = parser.parse_args().quick
    window, rows, batches = (100_000, 6_000, 2) if quick else (1_000_000, 60_000, 6)
    many = 200_000 if quick else 2_000_000
    table = Table("what", "measured", "target", title="Streaming joins in Spark")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        spark = local_session("penstock bench")
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        rate = against_window(spark, folder / "window", window, rows, batches)
        size, slow = work_around(spark, folder / "constant", 10 if quick else 60)
        table.add_row(
            f"evaluations/s, window {window:,}, {rows:,} rows per batch",
            f"{rate:.3g}",
            f">= {TARGET_RATE:.0e}",
        )
        table.add_row(f"work-around of Spark, {size:,} x {size:,}", f"{slow:.3g}", "")
        table.add_row("ratio", f"{rate / slow:,.0f}", f">= {TARGET_RATIO:,.0f}")
        for design in ("files", "state"):
            found = through(spark, folder / design, design, many, 4)
            target = f">= {TARGET_ROWS:.0e}" if design == "state" else ""
            table.add_row(f"rows/s, {design} design, {many:,} per batch", f"{found:,.0f}", target)
        spark.stop()
    Console().print(table)


if __name__ == "__main__":
    main()
