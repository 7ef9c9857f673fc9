"""Small batch joins, the first of a session and later ones: ``python -m bench.spark.small``.

Spark's own join and Penstock's take turns, each in a process and session of its own. A figure is
the median of the turns: seconds, and in brackets the CPU seconds of all processes of the session,
Java and Python workers included, which other work on the machine disturbs less. The inputs are
Parquet files, or rows that the driver has (``--inputs local``). ``--against REVISION`` measures the
Penstock of an earlier revision, too.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_WINDOW = "b.t BETWEEN a.t - 60 AND a.t + 60"
_ENGINES = ("Spark", "Penstock")
#: How long a process takes for a join: first and later ones, elapsed and of CPU time.
_FIGURES = ("first", "first cpu", "later", "later cpu")


@dataclass(frozen=True)
class Case:
    """Rows of both sides and a condition beside the window."""

    left: int
    right: int
    keys: int
    on: str

    @property
    def query(self) -> str:
        return f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON {self.on} AND {_WINDOW}"

    def tables(self) -> dict[str, pa.Table]:
        """Rows of both sides over the same hour, or longer if there are many."""
        span = max(3600, self.right // 2)
        found = {}
        for seed, (name, rows) in enumerate((("a", self.left), ("b", self.right))):
            rng = np.random.default_rng(seed)
            columns = {
                "n": np.arange(rows, dtype=np.int64),
                "t": rng.integers(0, span, rows),
                "k": rng.integers(0, self.keys, rows).astype(np.int32),
                "x": rng.integers(0, 1000, rows).astype(np.int32),
            }
            found[name] = pa.table(columns)
        return found


_EQUAL, _NEAR = "a.k = b.k", "abs(a.x - b.x) < 50"
CASES: Mapping[str, Case] = {
    "10 x 10, equality": Case(10, 10, 3, _EQUAL),
    "10 x 10, theta": Case(10, 10, 3, _NEAR),
    "1,000 x 1,000, equality": Case(1000, 1000, 50, _EQUAL),
    "1,000 x 1,000, theta": Case(1000, 1000, 50, _NEAR),
    "20,000 x 200,000, equality": Case(20_000, 200_000, 5000, _EQUAL),
}


def cpu_seconds() -> float:
    """CPU time of this process and all below it, with those of them that have ended."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(folder.name)] = int(fields[1])
        spent[int(folder.name)] = sum(int(field) for field in fields[11:15])
    own, ticks = {os.getpid()}, 0
    while own:
        ticks += sum(spent.get(one, 0) for one in own)
        own = {child for child, parent in parents.items() if parent in own}
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(root: str, engine: str, case: Case, inputs: str, later: int) -> dict[str, float]:
    """Figures of a new session, and a sum that both engines must agree on."""
    from pyspark.sql import functions as F

    from penstock.sim.local_spark.local_session import local_session
    from penstock.spark_bridge import sql

    if not str(inspect.getfile(sql)).startswith(root):
        raise SystemExit(f"the bridge is imported from {inspect.getfile(sql)}, not {root}")
    spark = local_session("penstock bench")
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        frames = {}
        for name, rows in case.tables().items():
            if inputs == "local":
                frames[name] = spark.createDataFrame(
                    rows.to_pylist(), "n long, t long, k int, x int"
                )
            else:
                pq.write_table(rows, f"{folder}/{name}.parquet")
                frames[name] = spark.read.parquet(f"{folder}/{name}.parquet")
            frames[name].createOrReplaceTempView(name)

        def joined():
            if engine == "Spark":
                return spark.sql(case.query)
            return sql(spark, case.query, frames, time={"a": "t", "b": "t"})

        taken = []
        for _ in range(1 + later):
            cpu, began = cpu_seconds(), time.perf_counter()
            joined().write.format("noop").mode("overwrite").save()
            taken.append((time.perf_counter() - began, cpu_seconds() - cpu))
        total = joined().agg(F.sum(F.hash("i", "j").cast("long"))).collect()[0][0]
    spark.stop()
    firsts, laters = taken[0], [median(own) for own in zip(*taken[1:], strict=True)]
    return {**dict(zip(_FIGURES, (*firsts, *laters), strict=True)), "sum": float(total or 0)}


def main() -> None:
    """Measure and print."""
    from rich.console import Console
    from rich.table import Table

    from bench.trees import HERE, checked_out, in_process

    parser = argparse.ArgumentParser(prog="python -m bench.spark.small", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="sessions of each engine and case")
    parser.add_argument("--later", type=int, default=7, help="joins after the first of a session")
    parser.add_argument("--inputs", choices=("files", "local"), default="files")
    parser.add_argument("--cases", default="", help="only those that have this in their name")
    parser.add_argument("--against", help="a revision of git")
    given = parser.parse_args()
    table = Table("rows", "who", *(f"{k}, s (CPU)" for k in ("first", "later")), "times Spark's")
    with nullcontext() if given.against is None else checked_out(given.against) as then:
        who = [(name, HERE, name) for name in _ENGINES]
        if then is not None:
            who.append((f"Penstock, {given.against}", then, "Penstock"))
        for case in (name for name in CASES if given.cases in name):
            found: dict[str, list[dict[str, float]]] = {name: [] for name, _, _ in who}
            for _ in range(given.turns):
                for name, root, engine in who:
                    asked = json.dumps([str(root), engine, case, given.inputs, given.later])
                    found[name].append(in_process(__file__, ["--one", asked], root))
            if len({one["sum"] for own in found.values() for one in own}) > 1:
                raise SystemExit(f"{case}: the engines find other pairs")
            spark: list[float] = []
            for name, own in found.items():
                took = [median(one[figure] for one in own) for figure in _FIGURES]
                spark = spark or took
                times = [a / b for a, b in zip(took, spark, strict=True)]
                table.add_row(case, name, *_pairs(took), " and ".join(_pairs(times)))
    Console(width=120).print(table)


def _pairs(figures: list[float]) -> list[str]:
    """The first and later figure, each with that of CPU time."""
    return [f"{own:.2f} ({cpu:.2f})" for own, cpu in zip(figures[::2], figures[1::2], strict=True)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        root, *rest = json.loads(sys.argv[2])
        # The packages of a tree, whatever tree is installed; workers inherit the path.
        sys.path[0] = os.environ["PYTHONPATH"] = root
        engine, case, inputs, later = rest
        sys.stdout.write(json.dumps(measured(root, engine, CASES[case], inputs, later)))
    else:
        main()
