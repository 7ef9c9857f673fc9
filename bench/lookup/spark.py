"""Lookup joins in Spark: ``python -m bench.lookup.spark [--rows N] [--quick] [--growth]``.

Micro-batches of 100,000 calls are joined with the subscribers, by a left join: by the bridge, with
the subscribers as a relation, and by Spark's own stream-static join, with them as Parquet files.
All run in one session of two cores, on the same files, one micro-batch each in turn; the rows of
each micro-batch are counted and hashed by Spark, and compared. Times are those of Spark's progress:
``addBatch``, which is the join with its planning, without the log of the micro-batch that all pay.

``--growth`` measures the bridge with ten times the rows, too, beside itself. Figures go to
``build/bench/lookup.spark.json``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from bench.command import BUILD, Titles, run
from bench.lookup.scale import Data
from bench.rows import Row
from penstock.errors import PenstockError
from penstock.sim.local_spark.local_session import local_session
from penstock.sim.workloads import Calls
from penstock.sim.workloads.call_records import SUBSCRIBERS
from penstock.spark_bridge import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Calls of a micro-batch, in a file for each core.
BATCH_ROWS, CORES = 100_000, 2
#: Tasks of a shuffle: what suits two cores best.
PARTITIONS = 4
#: Memory of Spark's Java: enough to broadcast 20 million subscribers.
JAVA_MEMORY = "8g"

QUERY = "SELECT c.id, s.plan, s.name FROM calls c LEFT JOIN subscribers s ON c.subscriber = s.id"
DDL = "id long, ts timestamp, subscriber long, seconds int"
#: Name of what each query observes.
_SEEN = "seen"
#: Most seconds of one micro-batch.
_PATIENCE_S = 900

TARGET_WRITTEN, TARGET_BEST, TARGET_GROWTH = 10, 3, 1.5


@dataclass(frozen=True)
class Scale:
    """Sizes of a run.

    Parameters
    ----------
    rows : int
        Of the relation.
    warm, batches : int
        Micro-batches before those that are timed, and those.
    """

    rows: int
    warm: int
    batches: int


@dataclass(frozen=True)
class Times:
    """Seconds of a micro-batch.

    Parameters
    ----------
    join_s : float
        Its join, planned and run.
    whole_s : float
        With Spark's log of the micro-batch.
    cpu_s : float
        Of all processes, with what Spark does beside.
    """

    join_s: float
    whole_s: float
    cpu_s: float


def _cpu_s() -> float:
    """CPU seconds of this process and of all that it has started, Java and Python workers too."""
    used: dict[int, int] = {}
    parent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            after = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(path.name)
        parent[number] = int(after[1])
        used[number] = sum(map(int, after[11:15]))  # its own, and of those that have ended
    total = 0
    for number in used:
        one = number
        while one in parent and one != os.getpid():
            one = parent[one]
        total += used[number] if one == os.getpid() else 0
    return total / os.sysconf("SC_CLK_TCK")


class Running:
    """A streaming query over files that are given to it one micro-batch at a time."""

    def __init__(self, folder: Path, joined: Callable[[DataFrame], DataFrame], spark: SparkSession):
        from pyspark.sql import functions as F

        self._source = folder / "source"
        self._source.mkdir(parents=True)
        calls = (
            spark.readStream.schema(DDL)
            .option("maxFilesPerTrigger", CORES)
            .parquet(str(self._source))
        )
        seen = F.bit_xor(F.xxhash64("id", "plan", "name")).alias("hash")
        rows = joined(calls).observe(_SEEN, F.count(F.lit(1)).alias("rows"), seen)
        self._query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        self._given = 0

    def answer(self, parts: Sequence[Path]) -> tuple[Times, tuple[int, int]]:
        """Run one micro-batch; its times, its rows and their hash."""
        for part in parts:
            # Linked under a hidden name: the source must see all files of a micro-batch at once.
            os.link(part, self._source / f".{part.name}")
        for part in parts:
            (self._source / f".{part.name}").rename(self._source / part.name)
        began = _cpu_s()
        self._query.processAllAvailable()
        cpu_s = _cpu_s() - began
        progress = [
            one for one in self._query.recentProgress if one["batchId"] >= self._given
            and one["numInputRows"]
        ]  # fmt: skip
        if sum(one["numInputRows"] for one in progress) != BATCH_ROWS:
            raise PenstockError(f"Spark has not reported micro-batch {self._given}")
        self._given = progress[-1]["batchId"] + 1
        took = [one["durationMs"] for one in progress]
        seen = [one["observedMetrics"][_SEEN].asDict() for one in progress]
        digest = 0
        for one in seen:
            digest ^= one["hash"]
        return (
            Times(
                sum(one["addBatch"] for one in took) / 1000,
                sum(one["triggerExecution"] for one in took) / 1000,
                cpu_s,
            ),
            (sum(one["rows"] for one in seen), digest),
        )

    def stop(self) -> None:
        self._query.stop()


class Contest:
    """A session, the files of calls, and those who join them.

    Parameters
    ----------
    scale : Scale
    folder : Path
        For what is of this run only.
    """

    def __init__(self, spark: SparkSession, scale: Scale, folder: Path) -> None:
        self.spark, self.scale, self.folder = spark, scale, folder
        self.data = Data(scale.rows, BUILD / "lookup")

    def calls(self, count: int) -> list[list[Path]]:
        """Files of some micro-batches."""
        rate = 1_000_000.0
        work = Calls(
            seconds=(count + 1) * BATCH_ROWS / rate * 1.2, rate=rate, subscribers=self.scale.rows
        )
        found = work.batches("calls", rows=BATCH_ROWS // CORES)
        made = []
        folder = self.folder / "calls"
        folder.mkdir()
        for number in range(count):
            paths = [folder / f"{number:04}-{core}.parquet" for core in range(CORES)]
            for path in paths:
                pq.write_table(pa.Table.from_batches([next(found)]), path)
            made.append(paths)
        return made

    @cached_property
    def parquet(self) -> Path:
        """The subscribers as Parquet files; written if they are missing."""
        path = self.data.folder / f"subscribers-{self.scale.rows}.parquet"
        if not path.exists():
            part = path.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            rows = self.data.subscribers()
            with ExitStack() as files:
                writers = [
                    files.enter_context(pq.ParquetWriter(part / f"{k}.parquet", SUBSCRIBERS))
                    for k in range(2 * CORES)
                ]
                for writer, batch in zip(cycle(writers), rows):
                    writer.write_batch(batch)
            part.rename(path)
        return path

    @property
    def subscribers(self) -> DataFrame:
        return self.spark.read.parquet(str(self.parquet)).select("id", "plan", "name")

    # -- who joins --------------------------------------------------------------------------------

    def penstock(self, calls: DataFrame) -> DataFrame:
        table = penstock.relation(self.data.relation)
        tables = {"calls": calls, "subscribers": table}
        return sql(self.spark, QUERY, tables, pins=str(self.folder / "pins"))

    def arcs(self, calls: DataFrame) -> DataFrame:
        table = penstock.relation(self.data.relation)
        tables = {"calls": calls, "subscribers": table}
        return sql(self.spark, QUERY, tables, pins=str(self.folder / "pins"), lanes=CORES)

    def alone(self, calls: DataFrame) -> DataFrame:
        return calls.selectExpr("id", "subscriber AS plan", "'' AS name")

    def as_written(self, calls: DataFrame) -> DataFrame:
        return _joined(calls, self.subscribers)

    def broadcast(self, calls: DataFrame) -> DataFrame:
        return _joined(calls, self.subscribers.hint("broadcast"))

    def hashed(self, calls: DataFrame) -> DataFrame:
        return _joined(calls, self.subscribers.hint("shuffle_hash"))

    def bucketed(self, calls: DataFrame) -> DataFrame:
        name = f"subscribers_{self.scale.rows}"
        if not self.spark.catalog.tableExists(name):
            rows = self.subscribers.repartition(PARTITIONS, "id")  # a file per bucket
            rows.write.bucketBy(PARTITIONS, "id").sortBy("id").saveAsTable(name)
        return _joined(calls, self.spark.table(name))

    def cached(self, calls: DataFrame) -> DataFrame:
        return _joined(calls, self._kept)

    @cached_property
    def _kept(self) -> DataFrame:
        """The subscribers in memory, in the partitions and the order that the join wants."""
        rows = self.subscribers.repartition(PARTITIONS, "id").sortWithinPartitions("id")
        kept = rows.cache()
        kept.count()
        return kept

    # -- turns ------------------------------------------------------------------------------------

    def measure(self, names: Sequence[str]) -> dict[str, list[Times]]:
        """Let contenders answer micro-batches in turn; times of those that count.

        Before each of the others it is the bridge's turn, which so gets ahead of them: Spark ends
        Python workers that had nothing to do for a minute, and what they keep is gone.

        Raises
        ------
        PenstockError
            Two of them gave different rows.
        """
        others = [name for name in names if name != OURS]
        order = [name for other in others for name in (OURS, other) if name in names] or [OURS]
        count = self.scale.warm + self.scale.batches
        times: dict[str, list[Times]] = {name: [] for name in names}
        seen: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        calls = self.calls(order.count(OURS) * count or count)
        running: dict[str, Running] = {}
        try:
            for name in names:
                joined = getattr(self, name)
                running[name] = Running(self.folder / name, joined, self.spark)
            for name in order * count:
                done = len(seen[name])
                if done == count and name != OURS:
                    continue
                took, rows = running[name].answer(calls[done])
                seen[name].append(rows)
                if done >= self.scale.warm:
                    times[name].append(took)
        finally:
            for one in running.values():
                one.stop()
        for given in zip(*(seen[name] for name in names if name != "alone"), strict=False):
            if len(set(given)) > 1:
                raise PenstockError(f"the contenders gave different rows: {given}")
        return times


def _joined(calls: DataFrame, subscribers: DataFrame) -> DataFrame:
    on = calls["subscriber"] == subscribers["id"]
    return calls.join(subscribers, on, "left").select(
        calls["id"], subscribers["plan"], subscribers["name"]
    )


OURS = "penstock"
#: Who joins, and what is said of it.
CONTENDERS = {
    OURS: "the bridge",
    "alone": "no join, calls only",
    "arcs": "the bridge, with lanes that own arcs of the hash",
    "as_written": "Spark's stream-static join, as written",
    "broadcast": "with a broadcast hint",
    "hashed": "with a shuffle_hash hint",
    "bucketed": "with subscribers bucketed and sorted by key",
    "cached": "with subscribers cached, partitioned and sorted by key",
}
#: Those who are beside the second target.
THEIRS = ("broadcast", "hashed", "bucketed", "cached")


def _join_s(times: Sequence[Times]) -> float:
    return median(one.join_s for one in times)


def _ratio(long: Sequence[Times], short: Sequence[Times], name: str) -> float:
    """How many times as long, by the medians of one kind of seconds."""
    return median(getattr(t, name) for t in long) / median(getattr(t, name) for t in short)


class Report:
    """The rows of the table.

    Parameters
    ----------
    scale : Scale
    names : sequence of str
        Of those who join.
    growth : bool
        Whether the bridge also joins with ten times the rows.
    on_row : callable
    """

    def __init__(
        self, scale: Scale, names: Sequence[str], growth: bool, on_row: Callable[[Row], None]
    ) -> None:
        self.rows: list[Row] = []
        self._scale, self._names, self._growth, self._on_row = scale, names, growth, on_row

    def measure(self) -> None:
        """Measure all figures of the table."""
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {JAVA_MEMORY} pyspark-shell"
        spark = local_session("penstock bench", cores=CORES)
        for name, value in {
            "spark.sql.shuffle.partitions": str(PARTITIONS),
            "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
            # Queries that have nothing to do look for files less often.
            "spark.sql.streaming.pollingDelay": "200ms",
            # What is cached keeps its partitions and order, so that the join need not sort it.
            "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "false",
            "spark.sql.legacy.bucketedTableScan.outputOrdering": "true",
        }.items():
            spark.conf.set(name, value)
        try:
            times = self._measured(spark, self._scale, self._names)
            self._compare(times)
            if self._growth:
                larger = Scale(10 * self._scale.rows, self._scale.warm, self._scale.batches)
                self._grown(times, self._measured(spark, larger, [OURS]))
        finally:
            spark.stop()

    def _measured(
        self, spark: SparkSession, scale: Scale, names: Sequence[str]
    ) -> dict[str, list[Times]]:
        with tempfile.TemporaryDirectory(dir=BUILD, ignore_cleanup_errors=True) as folder:
            times = Contest(spark, scale, Path(folder).absolute()).measure(names)
        for name, found in times.items():
            whole, cpu = (median(getattr(t, n) for t in found) for n in ("whole_s", "cpu_s"))
            self._add(
                Row(
                    f"{scale.rows:,} subscribers, {CONTENDERS[name]}",
                    f"{_join_s(found):.2f} s, with Spark's log {whole:.2f} s, CPU {cpu:.2f} s",
                    values=[vars(one) for one in found],
                )
            )
        return times

    def _compare(self, times: Mapping[str, list[Times]]) -> None:
        if OURS not in times:
            return
        if "as_written" in times:
            self._add_ratio(times, "as_written", "as written", TARGET_WRITTEN)
        others = {name: _join_s(found) for name, found in times.items() if name in THEIRS}
        if others:
            best = min(others, key=others.__getitem__)
            what = f"the best of hints, bucketed, cached: {CONTENDERS[best]}"
            self._add_ratio(times, best, what, TARGET_BEST)

    def _add_ratio(
        self, times: Mapping[str, list[Times]], other: str, what: str, target: float
    ) -> None:
        ratio, cpu = (_ratio(times[other], times[OURS], name) for name in ("join_s", "cpu_s"))
        text = f"{ratio:.1f} times, by CPU time {cpu:.1f} times"
        self._add(
            Row(f"as fast as {what}", text, f">= {target}", ratio >= target, values=[ratio, cpu])
        )

    def _grown(self, few: Mapping[str, list[Times]], many: Mapping[str, list[Times]]) -> None:
        ratio, cpu = (_ratio(many[OURS], few[OURS], name) for name in ("join_s", "cpu_s"))
        text = f"{ratio:.2f} times as long, by CPU time {cpu:.2f} times"
        met = ratio <= TARGET_GROWTH
        self._add(Row("ten times the rows", text, f"<= {TARGET_GROWTH}", met, values=[ratio, cpu]))

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._on_row(row)

    def draw(self, out: Path) -> list[Path]:
        """There are no pictures."""
        return []


TITLES = Titles(name="lookup.spark", text=__doc__, title="lookup joins in Spark", baseline="beside")


def main() -> int:
    """Measure what the command line names; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.lookup.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the relation")
    parser.add_argument("--quick", action="store_true", help="200,000 rows, few micro-batches")
    parser.add_argument("--growth", action="store_true", help="ten times the rows, too")
    parser.add_argument("--only", action="append", choices=CONTENDERS, help="who joins")
    given = parser.parse_args()
    scale = Scale(200_000, 2, 3) if given.quick else Scale(given.rows, 2, 5)
    names = given.only or list(CONTENDERS)
    return run(
        TITLES,
        lambda on_row: Report(scale, names, given.growth, on_row),
        quick=given.quick,
        pictures=False,
    )


if __name__ == "__main__":
    sys.exit(main())
