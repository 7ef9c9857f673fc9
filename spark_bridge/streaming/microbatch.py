"""Runs a micro-batch on the driver: takes in rows, writes the record, writes the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import time

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.errors import FileError
from penstock.host.join.step import Frontier, Share
from penstock.plan.plan import plan
from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import FOREVER
from penstock.words import many

from ..blobs import SCHEMA, merged
from ..rows import cast_to
from ..shown import described, join_text, task_of
from ..spark_task import partition
from ..stream_frame import After
from ..types import arrow_schema, spark_schema
from .commit import BatchRecord, Files, StoredFile
from .compaction import (
    FileMerge,
    choose_merges,
    merge_files,
    merges_of,
    needed_files,
    replace_merged,
)
from .figures import FigureRecords
from .identity import NUMBER, require_of, require_position
from .ingest import Ingest, IntakeReport
from .join_writer import Sink
from .place import QueryPlace
from .planning import planned
from .probe import run_share
from .routing import Routing, known_cells
from .spec import JoinSpec
from .store import LOST, Store
from .waiting_rows import WaitRule, closed_files, merge_waiting, read_closed, store_waiting

#: Reports by side, in the order of their partitions.
Reports = Mapping[str, Sequence[IntakeReport]]

#: Pairs in the window below which another shard costs more than it saves.
PAIRS_PER_SHARD = 1 << 22


@dataclass(frozen=True)
class MicroBatch:
    """The function for ``foreachBatch``. Its state is in the folder.

    Parameters
    ----------
    spec : JoinSpec
    store : Store
    shards : int
        Most tasks of the output.
    after : callable
        Computes the output's rows from those of the join.
    sink : callable
        Gets the output.
    late_sinks : dict of side to callable
        Get late rows, if there are any.
    place : QueryPlace, optional
        Of the query, to check that Spark repeats a batch with the same rows.
    started : float
        When the query was started, in seconds since 1970.
    """

    spec: JoinSpec
    store: Store
    shards: int
    after: After
    sink: Sink
    late_sinks: dict[str, Sink] = field(default_factory=dict)
    place: QueryPlace | None = None
    started: float = field(default_factory=time)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        spark = rows.sparkSession
        query = self.store.query()
        if query is None:
            raise FileError(
                f"{self.store.shown} on the driver's host is not the folder that start() made; "
                "checkpointLocation must be on a file system that the driver and all workers "
                "share, and, through Spark Connect, the program that starts the query"
            )
        before = self.store.commit(batch - 1)
        if before is None:
            raise FileError(
                f"{self.store.shown} has no record of batch {batch - 1}, and Spark continues "
                f"with batch {batch}; {LOST}"
            )
        require_of(before, query[NUMBER], self.store)
        commit = self.store.commit(batch)
        if commit is None:
            commit = replace(self._taken_in(rows, batch, before), query=query[NUMBER])
            if self.spec.waiting is not None:
                commit = self._with_waiting(spark, self.spec.waiting, before, commit)
            self.store.put(commit)
        else:  # the batch is repeated: it reads what it read before
            require_of(commit, query[NUMBER], self.store)
            if self.place is not None:
                require_position(self.place, commit)
        for side, sink in self.late_sinks.items():
            if commit.late[side]:
                sink(self._late(spark, commit, side), batch)
        records, shards = FigureRecords(self.store.folder), shards_of(commit, self.shards)
        if self.spec.waiting is None:
            joined = output_of(spark, self.spec, self.store, commit, shards, records)
        else:
            joined = complete_rows(spark, self.spec, self.spec.waiting, self.store, commit)
        with described(spark, self._shown(before, commit)):
            self.sink(self.after(joined), batch)
        tasks = 2 * shards if are_merged(self.spec, commit) else shards
        records.put(self.spec, before, commit, tasks)
        self.store.clean(commit, before)

    def _shown(self, before: BatchRecord, commit: BatchRecord) -> str:
        """A micro-batch in words, for Spark's UI."""
        names = self.spec.names
        came = ", ".join(
            f"{many(commit.arrived[side] - before.arrived[side], 'row')} of {names[side]}"
            for side in (LEFT, RIGHT)
        )
        late = sum(commit.late_rows.values()) - sum(before.late_rows.values())
        return (
            f"batch {commit.batch} of the {join_text(self.spec.query())}: {came} came, {late:,} of "
            f"them too late; {commit.window()['window_rows']:,} in the window"
        )

    # -- taking rows in ---------------------------------------------------------------------------

    def _taken_in(self, rows: DataFrame, batch: int, before: BatchRecord) -> BatchRecord:
        store = self.store
        ingest = Ingest(self.spec, store, batch, before.after, known_cells(self.spec, before))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            written = list(ingest.run(batches))
            if written:
                yield _text(store.report(partition(), written))

        intake = rows.mapInArrow(task_of("rows taken in", run), "text string")
        with described(rows.sparkSession, f"batch {batch} takes its rows in"):
            by_part = store.reports(row["text"] for row in intake.collect())
        reports: dict[str, list[IntakeReport]] = {LEFT: [], RIGHT: []}
        # The partitions order the rows of a batch.
        for values in (values for part in sorted(by_part) for values in by_part[part]):
            reports[values["side"]].append(IntakeReport.from_dict(values))
        frontier = Frontier(self.spec.query(), before.after)
        arrived = {side: sum(one.arrived for one in some) for side, some in reports.items()}
        late, heard = _files(reports, "late"), self._heard(before, arrived)
        commit = before.following(
            arrived,
            _rows(late),
            position={} if self.place is None else self.place.position(batch, before.position),
            after=self._watermarks(before, reports, heard),
            old=needed_files(frontier, before),
            new=_files(reports, "new"),
            timeless=_files(reports, "timeless"),
            late=late,
            heard=heard,
        )
        commit = self._routed(before, commit, reports)
        return self._merged(rows.sparkSession, frontier, commit)

    def _routed(self, before: BatchRecord, commit: BatchRecord, reports: Reports) -> BatchRecord:
        """The commit, with its routes."""
        larger = max(reports, key=lambda side: sum(one.arrived for one in reports[side]))
        samples = [one.sample for one in reports[larger] if one.sample is not None]
        lanes = shards_of(commit, self.shards)
        return replace(commit, routing=planned(self.spec, before, commit, samples, lanes))

    def _heard(self, before: BatchRecord, arrived: Mapping[str, int]) -> dict[str, float]:
        """Time at which rows of each side last came, or else at which the query was started."""
        now = time()
        return {s: now if arrived[s] else before.heard.get(s, self.started) for s in arrived}

    def _watermarks(
        self, before: BatchRecord, reports: Reports, heard: Mapping[str, float]
    ) -> dict[str, int]:
        """Watermarks after the new rows. Reads the clock, so the record keeps the result."""
        watermarks = {
            side: max([before.after[side], *(r.latest - self.spec.disorder[side] for r in some)])
            for side, some in reports.items()
        }
        if self.spec.idle_s is None:
            return watermarks
        # The time in which the query did not run does not count.
        silent = {s: time() - max(heard[s], self.started) for s in watermarks}
        latest = max(watermarks.values())
        return {s: latest if silent[s] >= self.spec.idle_s else watermarks[s] for s in watermarks}

    def _merged(self, spark: SparkSession, frontier: Frontier, commit: BatchRecord) -> BatchRecord:
        """The commit, with fewer files if there are many."""
        todo, spec, store = choose_merges(frontier, commit), self.spec, self.store
        done = self._merges(spark, todo, lambda one: merge_files(spec, store, commit, one))
        return replace(commit, old=replace_merged(commit.old, done))

    def _merges(
        self,
        spark: SparkSession,
        todo: list[FileMerge],
        merge: Callable[[FileMerge], StoredFile | None],
    ) -> list[tuple[FileMerge, StoredFile | None]]:
        """Run each merge in a task; return it with the merged file, None if no row is left."""
        if not todo:
            return []
        store = self.store

        def run(number: int) -> Iterator[pa.RecordBatch]:
            file = merge(todo[number])
            yield _text(store.report(number, [] if file is None else [asdict(file)]))

        done: list[tuple[FileMerge, StoredFile | None]] = []
        tasks = _tasks(spark, len(todo), run, "merged files", "text string").collect()
        for number, written in store.reports(row["text"] for row in tasks).items():
            done.append((todo[number], StoredFile(**written[0]) if written else None))
        return done

    def _with_waiting(
        self, spark: SparkSession, waiting: WaitRule, before: BatchRecord, commit: BatchRecord
    ) -> BatchRecord:
        """The commit, with files of its joined rows, and below which value groups are complete."""
        store, batch, low = self.store, commit.batch, before.closed[1]
        shards = shards_of(commit, self.shards)
        joined = output_of(spark, self.spec, store, commit, shards, FigureRecords(store.folder))
        rows = waiting.valued(waiting.of_joined(joined))
        schema = arrow_schema(rows.schema)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            table = pa.Table.from_batches([cast_to(one, schema) for one in batches], schema)
            files = [asdict(file) for file in store_waiting(store, batch, table)]
            yield _text(store.report(partition(), files))

        # Spark looks columns up by name, and reads "a.n" as a field of a.
        named = rows.toDF(*(f"c{place}" for place in range(len(schema))))
        written = named.mapInArrow(task_of("rows that wait for their groups", run), "text string")
        with described(spark, f"batch {batch} joins its rows"):
            by_part = store.reports(row["text"] for row in written.collect())
        new = [StoredFile(**one) for part in sorted(by_part) for one in by_part[part]]
        old = [file for file in before.waiting if file.high >= low]
        todo = merges_of("", old, low, FOREVER)
        done = self._merges(spark, todo, lambda one: merge_waiting(store, batch, one))
        old = replace_merged({"": old}, done)[""]
        closed = waiting.closed(spark, self.spec, commit)
        return replace(commit, waiting=[*old, *new], closed=(low, max(low, closed)))

    def _late(self, spark: SparkSession, commit: BatchRecord, side: str) -> DataFrame:
        store, files = self.store, commit.late[side]

        def run(number: int) -> Iterable[pa.RecordBatch]:
            return store.read(files[number]).to_batches()

        return _tasks(
            spark, len(files), run, "late rows", spark_schema(self.spec.side_schema(side))
        )


def shards_of(commit: BatchRecord, most: int) -> int:
    """Number of tasks of a commit's output."""
    if commit.routed is not None:
        return commit.routed["table"]["lanes"]
    old, new = _rows(commit.old), _rows(commit.new)
    pairs = sum(new[s] * (old[o] + new[o]) for s, o in ((LEFT, RIGHT), (RIGHT, LEFT)))
    if commit.before != commit.after:
        pairs = max(pairs, old[LEFT] * old[RIGHT])
    return max(1, min(most, pairs // PAIRS_PER_SHARD))


def output_of(
    spark: SparkSession,
    spec: JoinSpec,
    store: Store,
    commit: BatchRecord,
    shards: int,
    records: FigureRecords | None = None,
) -> DataFrame:
    """Output rows of a commit; the tasks that compute them write figures to the records."""

    def run(shard: int) -> Iterator[pa.RecordBatch]:
        return run_share(spec, store, commit, Share(shard, shards), records)

    rows = _tasks(spark, shards, run, join_text(spec.query()), spark_schema(spec.output))
    if are_merged(spec, commit):
        rows = rows.union(_merged_groups(spark, spec, store, commit, shards, records))
    ordering = spec.compiled.ordering
    return rows if ordering is None else ordering.sort(rows, spec.query())


def complete_rows(
    spark: SparkSession, spec: JoinSpec, waiting: WaitRule, store: Store, commit: BatchRecord
) -> DataFrame:
    """Stored rows whose groups are complete with a commit, and were not before it."""
    files, schema = closed_files(commit), waiting.schema(spark, spec)

    def run(number: int) -> Iterator[pa.RecordBatch]:
        return read_closed(store, commit, schema, files[number])

    if not files:
        return spark.createDataFrame([], spark_schema(schema))
    return _tasks(spark, len(files), run, "rows of complete groups", spark_schema(schema))


def are_merged(spec: JoinSpec, commit: BatchRecord) -> bool:
    """Whether groups of a commit are in several lanes, and merged in a second stage."""
    if plan(spec.query()).closing_key is None:
        return False
    routing = Routing.from_record(spec, commit)
    return routing is not None and bool(routing.is_merged.any())


def _merged_groups(
    spark: SparkSession,
    spec: JoinSpec,
    store: Store,
    commit: BatchRecord,
    shards: int,
    records: FigureRecords | None,
) -> DataFrame:
    """Groups in several lanes: each lane's partial aggregates, merged by key."""

    def run(shard: int) -> Iterator[pa.RecordBatch]:
        return run_share(spec, store, commit, Share(shard, shards), records, is_partial=True)

    partial = _tasks(spark, shards, run, join_text(spec.query()), spark_schema(SCHEMA))
    return merged(partial, spec.compiled, spec.output, shards, spec.device.conf.output_rows)


def _tasks(
    spark: SparkSession,
    count: int,
    work: Callable[[int], Iterable[pa.RecordBatch]],
    name: str,
    schema: StructType | str,
) -> DataFrame:
    """The rows that ``work`` gives for the numbers from 0 on, each in a task of its own."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(number)

    return spark.range(0, count, 1, count).mapInArrow(task_of(name, run), schema)


def _text(text: str) -> pa.RecordBatch:
    return pa.record_batch([pa.array([text], pa.string())], names=["text"])


def _files(reports: Reports, kind: str) -> dict[str, list[StoredFile]]:
    return {
        side: [report.files[kind] for report in side_reports if kind in report.files]
        for side, side_reports in reports.items()
    }


def _rows(files: Files) -> dict[str, int]:
    return {side: sum(file.rows for file in stored) for side, stored in files.items()}
