"""Joins in one Spark session, timed."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark_bridge import sql
from penstock.spark_bridge.java import ensure_java

#: Places are drawn from a square of this side, and match within this distance: 1 in 2 million.
_SIDE, _NEAR = 1 << 20, 700

_ON = f"abs(l.x - r.x) + abs(l.y - r.y) < {_NEAR}"

#: Memory of the Java process, which is driver and executor.
MEMORY = "2g"


def session(cores: int) -> SparkSession:
    """A session with the memory of a small executor."""
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    made = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("penstock bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", MEMORY)
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        .config("spark.penstock.pruning", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def points(spark: SparkSession, rows: int, seed: int) -> DataFrame:
    """Rows at times 0, 1, 2, ... in random places, in memory."""
    place = [
        F.pmod(F.xxhash64("id", F.lit(seed + k)), F.lit(_SIDE)).cast("int").alias(name)
        for k, name in enumerate("xy")
    ]
    made = spark.range(rows).select("id", F.col("id").cast("int").alias("t"), *place).cache()
    made.count()
    return made


@dataclass(frozen=True)
class Timed:
    """A join: how long it took, and how many pairs were tested."""

    seconds: float
    evaluations: float

    @property
    def rate(self) -> float:
        return self.evaluations / self.seconds


def bridge(
    spark: SparkSession, left: DataFrame, right: DataFrame, window: int, lanes: int
) -> Timed:
    """The join by the bridge, over a window of so many rows to both sides."""
    query = (
        f"SELECT l.id AS i, r.id AS j FROM l JOIN r ON {_ON} "
        f"AND r.t BETWEEN l.t - {window} AND l.t + {window}"
    )
    began = time.perf_counter()
    time_of = {"l": "t", "r": "t"}
    joined = sql(spark, query, {"l": left, "r": right}, time=time_of, lanes=lanes)
    joined.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - began
    return Timed(seconds, _pairs(left.count(), right.count(), window))


def nested_loop(spark: SparkSession, left: DataFrame, right: DataFrame) -> Timed:
    """The join by Spark, over all rows."""
    on = F.expr(_ON)
    joined = left.alias("l").join(F.broadcast(right.alias("r")), on).select("l.id", "r.id")
    began = time.perf_counter()
    joined.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - began
    return Timed(seconds, float(left.count()) * right.count())


def _pairs(left: int, right: int, window: int) -> float:
    """Pairs in the window of rows at times 0, 1, 2, ..."""
    shorter = min(left, right)
    if window >= max(left, right):
        return float(left) * right
    met = sum(
        max(0, min(right, t + window + 1) - max(0, t - window))
        for t in range(0, left, max(1, left // 1000))
    )
    return met * float(left) / len(range(0, left, max(1, left // 1000))) if shorter else 0.0


@dataclass(frozen=True)
class Emitted:
    """A lane with many pairs: how long it took, the bytes of the pairs, and most memory."""

    seconds: float
    pair_bytes: float
    worker_bytes: int


def many_pairs(spark: SparkSession, rows: int, columns: int) -> Emitted:
    """One lane that gives all pairs of so many rows of either side, as bigint columns."""
    frame = points(spark, rows, 1)
    select = ", ".join(f"l.id + {k} AS c{k}" for k in range(columns - 1))
    query = f"SELECT {select}, r.id AS j FROM l JOIN r ON r.t >= l.t - {rows}"
    began = time.perf_counter()
    time_of = {"l": "t", "r": "t"}
    joined = sql(spark, query, {"l": frame, "r": frame}, time=time_of, lanes=1)
    joined.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - began
    return Emitted(seconds, 8.0 * columns * rows * rows, most_memory_of_workers())


def most_memory_of_workers() -> int:
    """Most bytes that one of the Python workers below this process had resident."""
    children: dict[int, list[int]] = {}
    peak: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "status").read_text()
            names[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        children.setdefault(int(fields["PPid"]), []).append(int(folder.name))
        peak[int(folder.name)] = 1024 * int(fields.get("VmHWM", "0 kB").split()[0])
    found, waiting = [0], [os.getpid()]
    while waiting:
        for child in children.get(waiting.pop(), []):
            waiting.append(child)
            name = names[child]
            is_java = "java" in name.split(" ")[0]
            if not is_java and ("pyspark" in name or "sys.stdin" in name):
                found.append(peak[child])
    return max(found)
