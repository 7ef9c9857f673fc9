"""Batch joins of 1e5 and 1e6 rows beside Spark's own: ``python -m bench.spark.joins``.

Spark's own form of each query and Penstock's take turns in one session of ``local[2]``, after one
run each. A figure is the median of the turns: CPU seconds of all processes of the session, Java and
Python workers included, and elapsed seconds; both engines' rows are compared by their number and by
a sum of hashes. Spark does not run what takes it minutes, unless ``--all`` asks for it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.spark.small import cpu_seconds

_WINDOW = " AND b.t BETWEEN a.t - 60 AND a.t + 60"


@dataclass(frozen=True)
class Case:
    """A query: condition or nearest rows, kind, if it has a window, if Spark ends in seconds."""

    on: str
    kind: str = ""
    has_window: bool = True
    is_quick: bool = True

    @property
    def query(self) -> str:
        window = _WINDOW if self.has_window else ""
        on = self.on if self.on.startswith("EXACT") else f"ON {self.on}"
        return f"SELECT a.n AS i, b.n AS j FROM a {self.kind} JOIN b {on}{window}"


CASES: Mapping[str, Case] = {
    "50 keys, window": Case("a.k50 = b.k50"),
    "1,000 keys, window": Case("a.k1000 = b.k1000"),
    "50,000 keys, window": Case("a.k50000 = b.k50000"),
    "50 keys, window, LEFT": Case("a.k50 = b.k50", "LEFT"),
    "1,000 keys, window, LEFT": Case("a.k1000 = b.k1000", "LEFT"),
    "50,000 keys, window, LEFT": Case("a.k50000 = b.k50000", "LEFT"),
    "unique keys, window": Case("a.u = b.u"),
    "unique keys": Case("a.u = b.u", has_window=False),
    "unique keys, LEFT": Case("a.u = b.u", "LEFT", has_window=False),
    "50 keys, band": Case("a.k50 = b.k50 AND abs(a.x - b.x) < 20", "", False, False),
    "band": Case("abs(a.x - b.x) < 1", "", False, False),
    "nearest 5": Case(
        "EXACT NEAREST 5 BY DISTANCE abs(a.x - b.x) + abs(a.y - b.y)", "", False, False
    ),
    "theta": Case("abs(a.x - b.x) + abs(a.y - b.y) < 700", "", False, False),
}


def rows_of(rows: int, seed: int) -> pa.Table:
    """Rows of one side: number, time of a day or ten, keys, places."""
    rng = np.random.default_rng(seed)
    keys = {f"k{n}": rng.integers(0, n, rows).astype(np.int32) for n in (50, 1000, 50_000)}
    columns = {
        "n": np.arange(rows, dtype=np.int64),
        "t": rng.integers(0, 500_000, rows),
        "u": rng.permutation(1_000_000)[:rows],
        **keys,
        "x": rng.integers(0, 1 << 20, rows).astype(np.int32),
        "y": rng.integers(0, 1 << 20, rows).astype(np.int32),
    }
    return pa.table(columns)


def cost(joined: Callable[[], DataFrame]) -> tuple[float, float]:
    """CPU and elapsed seconds of a join whose rows nobody keeps."""
    cpu, began = cpu_seconds(), time.perf_counter()
    joined().write.format("noop").mode("overwrite").save()
    return cpu_seconds() - cpu, time.perf_counter() - began


def digest(rows: DataFrame) -> tuple[int, int]:
    """The number of rows and a sum of their hashes."""
    n, total = rows.agg(F.count(F.lit(1)), F.sum(F.hash("i", "j").cast("long"))).collect()[0]
    return n, total or 0


def main() -> None:
    """Measure and print."""
    from rich.console import Console
    from rich.table import Table

    from penstock.sim.local_spark.local_session import local_session
    from penstock.spark_bridge import explain, sql

    parser = argparse.ArgumentParser(prog="python -m bench.spark.joins", description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cases", default="", help="only those that have this in their name")
    parser.add_argument("--left", type=int, default=100_000, help="rows of the left table")
    parser.add_argument("--right", type=int, default=1_000_000, help="and of the right one")
    parser.add_argument("--all", action="store_true", help="with Spark's own slow joins")
    parser.add_argument("--explain", action="store_true", help="also say what runs")
    given = parser.parse_args()
    spark = local_session("penstock bench", cores=2)
    spark.sparkContext.setLogLevel("ERROR")
    table = Table("join", "rows", "Spark's CPU s (elapsed)", "Penstock's", "share of its speed")
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        frames = {}
        for seed, (name, rows) in enumerate((("a", given.left), ("b", given.right))):
            pq.write_table(rows_of(rows, seed), Path(folder, name), row_group_size=1 << 17)
            frames[name] = spark.read.parquet(f"{folder}/{name}")
            frames[name].createOrReplaceTempView(name)
        for name, case in CASES.items():
            if given.cases not in name:
                continue
            time_of = {"a": "t", "b": "t"} if case.has_window else None
            if given.explain:
                console.print(
                    f"[bold]{name}[/]\n{explain(spark, case.query, frames, time=time_of)}"
                )
            ways: dict[str, Callable[[], DataFrame]] = {}
            if case.is_quick or given.all:
                ways["Spark"] = lambda case=case: spark.sql(case.query)
            ways["Penstock"] = lambda case=case, t=time_of: sql(spark, case.query, frames, time=t)
            found = {who: digest(joined()) for who, joined in ways.items()}
            if len(set(found.values())) > 1:
                raise SystemExit(f"{name}: the rows differ: {found}")
            taken: dict[str, list[tuple[float, float]]] = {who: [] for who in ways}
            for _ in range(given.turns):
                for who, joined in ways.items():
                    taken[who].append(cost(joined))
            figures = {
                who: [median(own) for own in zip(*all_turns, strict=True)]
                for who, all_turns in taken.items()
            }
            shown = {who: f"{cpu:.2f} ({wall:.2f})" for who, (cpu, wall) in figures.items()}
            share = "-"
            if "Spark" in figures:
                cpu, wall = (own / our for own, our in zip(*figures.values(), strict=True))
                share = f"{cpu:.2f} ({wall:.2f})"
            rows = f"{found['Penstock'][0]:,}"
            table.add_row(name, rows, shown.get("Spark", "-"), shown["Penstock"], share)
            console.print(f"{name}: {shown}")
    console.print(table)
    spark.stop()


if __name__ == "__main__":
    main()
