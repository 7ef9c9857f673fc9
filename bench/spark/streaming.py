"""Streaming joins in Spark: ``python -m bench.spark.streaming [--quick] [--only PART]``.

rates
    Evaluations per second, end to end, of micro-batches of 60,000 and of 240,000 rows against a
    window of a million, pruning off, pairs written, fewer than one pair in a million; Spark's own
    work-around for such joins, an equality of constants, at the largest size that it finishes in a
    minute.
rows
    Rows per second through a small window.
windows
    Latency of a micro-batch against window size and lanes, with and without windows
    that stay resident, in the workers and in a device server.
keys
    Interval joins of equal keys, which Spark runs itself, by skew; and its counts of each key.
pruning
    Share of a micro-batch of 60,000 rows against a window of a million in which devices work,
    pruning on and off.

Every contender's number of pairs is compared with NumPy's. Times are those of Spark's progress.
Figures go to ``build/bench/spark_streaming.json``, pictures beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.spark import pictures
from bench.spark.keyed import CONTENDERS, Keyed, counted, joined
from bench.spark.native import equal_constants
from bench.spark.streams import THETA, points, seconds, source
from bench.spark.windows import Case, cases, measured
from penstock.sim.local_spark.local_session import local_session
from penstock.spark_bridge import stream

TARGET_RATE, TARGET_RATIO, TARGET_ROWS = 3e10, 1e3, 5e5
#: Largest share of a micro-batch in which a device works, pruning on.
TARGET_SHARE = 0.05
#: Least rate of skewed keys with a band beside, over Spark's.
TARGET_SKEWED = 10
PARTS = ("rates", "rows", "windows", "keys", "pruning")
OUT = Path("build/bench")


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    window: int
    #: Rows of a micro-batch against it.
    rows: tuple[int, ...]
    batches: int
    #: Rows of a micro-batch through a small window.
    many: int
    #: Joins of equal keys.
    keyed: tuple[Keyed, ...]
    work_around_s: float
    windows: tuple[int, ...]
    few: int


def _keyed(rows: int) -> tuple[Keyed, ...]:
    """Joins of equal keys, of so few rows that Spark can still join the skewed ones in minutes."""
    return Keyed(rows, 3, 0), Keyed(rows, 3, 0.8), Keyed(rows // 2, 3, 1.2, is_near=True)


FULL = Scale(
    1_000_000, (60_000, 240_000), 4, 2_000_000, _keyed(60_000), 60, (100_000, 1_000_000), 2_000
)
QUICK = Scale(100_000, (6_000, 24_000), 2, 200_000, _keyed(12_000), 10, (10_000, 100_000), 1_000)


def through(spark: SparkSession, folder: Path, rows: int, batches: int) -> float:
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
    )
    return rows / median(seconds(joined.writeStream.format("parquet"), folder)[1:])


def rates(spark: SparkSession, folder: Path, scale: Scale, table: Table) -> dict:
    """Evaluations per second, and those of Spark's work-around."""
    found = {}
    for rows in scale.rows:
        case = Case(scale.window, rows)
        found[rows] = measured(spark, case, scale.batches).evaluations_per_s
        table.add_row(
            f"evaluations/s, window {scale.window:,}, {rows:,} rows per batch",
            f"{found[rows]:.3g}",
            f">= {TARGET_RATE:.0e}",
        )
    rate = min(found.values())
    size, took, slow = equal_constants(spark, folder / "constant", scale.work_around_s)
    table.add_row(
        f"equal constants in Spark, {size:,} x {size:,} in {took:.0f} s", f"{slow:.3g}", ""
    )
    table.add_row("ratio", f"{rate / slow:,.0f}", f">= {TARGET_RATIO:,.0f}")
    return {"evaluations_per_s": found, "work_around": [size, took, slow]}


def rows(spark: SparkSession, folder: Path, scale: Scale, table: Table) -> dict:
    """Rows per second through a small window."""
    rate = through(spark, folder, scale.many, 4)
    table.add_row(f"rows/s, {scale.many:,} per batch", f"{rate:,.0f}", f">= {TARGET_ROWS:.0e}")
    return {"rows_per_s": rate}


def windows(spark: SparkSession, folder: Path, scale: Scale, table: Table) -> list[dict]:
    """Latency by window, lanes and residency."""
    found = []
    for case in cases(scale.windows, scale.few):
        one = measured(spark, case, 3)
        found.append(one.as_json())
        stays = "resident" if case.resident else "not resident"
        device = "" if case.device == "cpu" else ", device server"
        rows = "" if one.travelled is None else f", {one.travelled:,.0f} window rows sent"
        table.add_row(
            f"{case.rows:,} rows, window {case.window:,}, {case.lanes} lanes, {stays}{device}",
            f"{one.latency_s:.2f} s, {one.evaluations_per_s:.2g} evaluations/s, "
            f"{one.rows_per_s:,.0f} rows/s{rows}",
            "",
        )
    return found


def keys(spark: SparkSession, folder: Path, scale: Scale, table: Table) -> list[dict]:
    """Rows per second of interval joins of equal keys, and of Spark's counts of each key."""
    found = []
    for k, keyed in enumerate(scale.keyed):
        rates = {}
        for who in CONTENDERS:
            rates[who], pairs = joined(spark, folder / f"{k}{who}", keyed, who)
            table.add_row(f"{keyed}, {pairs:,} pairs: {who}", f"{rates[who]:,.0f} rows/s", "")
        ours, theirs = rates["Penstock, lanes by key"], max(list(rates.values())[:2])
        table.add_row(
            "lanes by key over the better of Spark's",
            f"{ours / theirs:.1f}",
            f">= {TARGET_SKEWED}" if keyed.is_near else "",
        )
        count = counted(spark, folder / f"{k} count", keyed)
        table.add_row(
            f"count of each key in Spark, z {keyed.exponent:g}", f"{count:,.0f} rows/s", ""
        )
        found.append({"join": str(keyed), "rates": rates, "count": count})
    return found


def pruning(spark: SparkSession, folder: Path, scale: Scale, table: Table) -> dict:
    """Shares of micro-batches in which devices work."""
    found = {}
    for is_on in (False, True):
        case = Case(scale.window, scale.rows[0], pruning=is_on)
        one = measured(spark, case, scale.batches)
        found["on" if is_on else "off"] = one.as_json()
        table.add_row(
            f"device's share of a micro-batch of {case.rows:,} rows, window {case.window:,}, "
            f"pruning {'on' if is_on else 'off'}",
            f"{one.device_share:.1%} of {one.latency_s:.2f} s",
            f"< {TARGET_SHARE:.0%}" if is_on else "",
        )
    return found


def main() -> None:
    """Print a table of figures beside their targets; write them, and pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", choices=PARTS, action="append", help="parts; default: all")
    given = parser.parse_args()
    scale = QUICK if given.quick else FULL
    OUT.mkdir(parents=True, exist_ok=True)
    file = OUT / "spark_streaming.json"
    figures = json.loads(file.read_text()) if file.exists() else {}
    measures = dict(zip(PARTS, (rates, rows, windows, keys, pruning), strict=True))
    table = Table("what", "measured", "target", title="Streaming joins in Spark")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        spark = local_session("penstock bench")
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        for part in given.only or PARTS:
            measure = measures[part]
            figures[part] = measure(spark, Path(name) / part, scale, table)
            # What has been measured is kept, whatever becomes of the rest.
            file.write_text(json.dumps(figures, indent=1))
        spark.stop()
    console = Console()
    console.print(table)
    for path in pictures.draw(figures, OUT):
        console.print(f"drew {path}")


if __name__ == "__main__":
    main()
