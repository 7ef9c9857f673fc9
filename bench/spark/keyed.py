"""Interval joins of equal keys, which Spark runs itself, and its counts of them, by skew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from bench.spark.native import found_pairs, settings
from bench.spark.streams import NEAR, ROCKSDB, SPACE, agree, seconds, source
from penstock.spark_bridge import stream
from sim.workloads.draws import draw, zipf_cdf

DDL = "n int, t timestamp, k int, x int"
#: Seconds to both sides within which rows of equal keys join, and different keys.
WITHIN_S, KEYS = 5, 10_000
#: Rows per second of event time and side: some 10 of 10,000 keys' rows have the same in a window.
PER_SECOND = 10_000
_BEGIN_US = 1_700_000_000_000_000
_SPAN = WITHIN_S * PER_SECOND
_INTERVAL = f"INTERVAL {WITHIN_S} SECONDS"

#: Who joins: what a figure calls it, and the state store or partitioning.
CONTENDERS: Mapping[str, tuple[str, str | None]] = {
    "Spark, default state store": ("store", None),
    "Spark, RocksDB": ("store", ROCKSDB),
    "Penstock, lanes by row": ("partitioning", "rows"),
    "Penstock, lanes by key": ("partitioning", "keys"),
}


@dataclass(frozen=True)
class Keyed:
    """Rows of both sides whose keys follow Zipf's law.

    Parameters
    ----------
    rows
        Of both sides, per micro-batch.
    exponent
        Of the law; 0 for keys that are alike.
    is_near
        Whether pairs must be near one another too, so that few of a hot key's join.
    """

    rows: int
    batches: int
    exponent: float
    is_near: bool = False

    @property
    def on(self) -> str:
        """The condition, without the prefix of a dialect."""
        near = f" AND abs(a.x - b.x) < {NEAR}" if self.is_near else ""
        return f"a.k = b.k AND b.t BETWEEN a.t - {_INTERVAL} AND a.t + {_INTERVAL}{near}"

    def __str__(self) -> str:
        """What a table calls it."""
        near = f", abs(a.x - b.x) < {NEAR}" if self.is_near else ""
        return f"equal keys{near}, z {self.exponent:g}, {self.rows:,} rows per batch"

    def parts(self, seed: int) -> list[pa.Table]:
        """Rows of one side in order of time, a part per micro-batch."""
        rng = np.random.default_rng(seed)
        # Keys are named in another order than by weight, the same one on both sides.
        names = np.random.default_rng(0).permutation(KEYS).astype(np.int32)
        cumulative = zipf_cdf(KEYS, self.exponent)
        size, found = self.rows // 2, []
        for k in range(self.batches):
            number = np.arange(k * size, (k + 1) * size)
            # Spark's watermark begins at 1970, so that a row of that moment would be late.
            time = _BEGIN_US + number * (1_000_000 // PER_SECOND)
            columns = {
                "n": number.astype(np.int32),
                "t": pa.array(time, pa.timestamp("us", "UTC")),
                "k": names[draw(rng, cumulative, size)],
                "x": rng.integers(0, SPACE, size).astype(np.int32),
            }
            found.append(pa.table(columns))
        return found

    def pairs(self, sides: Mapping[str, Sequence[pa.Table]]) -> int:
        """Pairs that join, by NumPy."""
        a, b = (_columns(pa.concat_tables(parts)) for parts in sides.values())
        # Of one key, what is nearest lies together: the place where that is a part of the
        # condition, and otherwise the time.
        by = ("x", NEAR - 1) if self.is_near else ("n", _SPAN)
        places = [side["k"] * (1 << 40) + side[by[0]] for side in (a, b)]
        order = np.argsort(places[1])
        low = np.searchsorted(places[1][order], places[0] - by[1])
        high = np.searchsorted(places[1][order], places[0] + by[1], side="right")
        if not self.is_near:
            return int((high - low).sum())
        times = b["n"][order]
        return sum(
            int((np.abs(times[i:j] - n) <= _SPAN).sum())
            for i, j, n in zip(low.tolist(), high.tolist(), a["n"].tolist(), strict=True)
        )


def joined(spark: SparkSession, folder: Path, keyed: Keyed, who: str) -> tuple[float, int]:
    """One contender's rows per second, of both sides, and pairs.

    Raises
    ------
    PenstockError
        If it finds other pairs than NumPy.
    """
    parts = {side: keyed.parts(seed) for seed, side in enumerate("ab")}
    frames = {side: _frame(spark, folder / side, own) for side, own in parts.items()}
    what, which = CONTENDERS[who]
    with settings(
        spark, provider=which if what == "store" else None, partitions=_partitions(spark)
    ):
        if what == "store":
            both = frames["a"].alias("a").join(frames["b"].alias("b"), on=F.expr(keyed.on))
            both = both.selectExpr("a.n AS a", "b.n AS b")
        else:
            text = f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {keyed.on}"
            both = stream(spark, text, frames, partitioning=which)
        rate = _rate(both.writeStream.format("parquet"), folder, keyed)
    found = found_pairs(spark, folder)
    agree(found, keyed.pairs(parts), who)
    return rate, found


def counted(spark: SparkSession, folder: Path, keyed: Keyed) -> float:
    """Rows per second of Spark's own `count` of each key of one stream, windows of a second."""
    frame = _frame(spark, folder / "a", keyed.parts(0))
    with settings(spark, provider=None, partitions=_partitions(spark)):
        counts = frame.groupBy(F.window("t", "1 second"), "k").count()
        counts = counts.selectExpr("window.start AS t", "k", "count AS n")
        return _rate(counts.writeStream.format("parquet"), folder, keyed) / 2


def _rate(writer: DataStreamWriter, folder: Path, keyed: Keyed) -> float:
    # The first micro-batch starts workers; the last has no new rows with Spark's own.
    return keyed.rows / median(seconds(writer, folder)[1 : keyed.batches])


def _frame(spark: SparkSession, folder: Path, parts: Sequence[pa.Table]) -> DataFrame:
    return source(spark, folder, parts, DDL).withWatermark("t", "1 second")


def _partitions(spark: SparkSession) -> str:
    """A partition for each core, as it is best for a stream with state."""
    return str(spark.sparkContext.defaultParallelism)


def _columns(rows: pa.Table) -> dict[str, np.ndarray]:
    return {name: rows.column(name).to_numpy().astype(np.int64) for name in ("n", "k", "x")}
