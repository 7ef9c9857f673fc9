"""The state design: windows in Spark's own state store, and a DataFrame to go on with.

Each state call is a round trip to the JVM, so state is few, big values: rows are packed into Arrow
messages before the shuffle, and lie in the state as such. Every lane gets all rows and keeps its
share; each pair is found by the lane that keeps its earlier row, or, of one micro-batch, its
right one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from penstock.errors import QueryError, UsageError
from penstock.host.completeness.admission import FOREVER, NEVER
from penstock.host.resident.residence import Residence
from penstock.host.sides import Loaded
from penstock.host.stats import Stats
from penstock.host.stepwise import Frontier, needed
from penstock.query.plan import LEFT, RIGHT, JoinKind, JoinQuery
from penstock.spark_bridge.metrics.figures import LaneFigures
from penstock.spark_bridge.metrics.observed import COLUMNS, columns_of, observed
from penstock.spark_bridge.streaming.commit import Commit, StoredFile
from penstock.spark_bridge.streaming.compaction import merged, merges, replaced
from penstock.spark_bridge.streaming.identity import identity
from penstock.spark_bridge.streaming.ingest import Admitted, admitted, write
from penstock.spark_bridge.streaming.probe import StoredRows, run_step
from penstock.spark_bridge.streaming.spec import IS_RIGHT, JoinSpec
from penstock.spark_bridge.streaming.store import RowStore
from penstock.spark_bridge.types import spark_schema

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: Rows on their way to the lanes: which lane, order, whether the lane keeps them, an Arrow message.
_PACKED = "lane int, part int, number int, is_right boolean, kept boolean, rows binary"
_FIELDS = [
    ("lane", pa.int32()),
    ("part", pa.int32()),
    ("number", pa.int32()),
    ("is_right", pa.bool_()),
    ("kept", pa.bool_()),
    ("rows", pa.binary()),
]


def with_state(spark: SparkSession, spec: JoinSpec, rows: DataFrame, lanes: int) -> DataFrame:
    """The join as a streaming DataFrame.

    Parameters
    ----------
    spark : SparkSession
    spec : JoinSpec
    rows : DataFrame
        Of both sides.
    lanes : int

    Raises
    ------
    QueryError
        The query needs one lane.
    UsageError
        Spark's state store cannot do it.
    """
    _check(spark, spec.query(), lanes)
    keys = _keys(spark, lanes)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        filled = [batch for batch in batches if batch.num_rows]
        if filled:
            yield from packed(pa.Table.from_batches(filled), part, keys)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for message in batch.column(0):
                yield from _table(message.as_py()).to_batches()

    sent = rows.mapInArrow(pack, _PACKED).groupBy("lane")
    columns = ", ".join(f"{name} {dtype}" for name, dtype in COLUMNS.items())
    found = sent.transformWithStateInPandas(
        LaneProcessor(spec, keys), f"rows binary, {columns}", "append", "none"
    )
    return observed(found, spec.names, lanes).mapInArrow(unpack, spark_schema(spec.output))


def _check(spark: SparkSession, query: JoinQuery, lanes: int) -> None:
    if lanes > 1 and (query.kind is not JoinKind.INNER or query.aggregation is not None):
        what = "a query with groups" if query.aggregation else f"a {query.kind.value} JOIN"
        raise QueryError(
            f"the state design joins {what} in one lane, not {lanes}: what a row matches in all "
            "lanes is put together by the files design only; give lanes=1, or design='files'"
        )
    if lanes > 1 and query.is_rows:
        raise QueryError(
            f"the state design joins ROWS in one lane, not {lanes}, since their order is one; "
            "give lanes=1, or design='files'"
        )
    if spark.conf.get(_PROVIDER, "") != _ROCKSDB:
        raise UsageError(
            "Spark keeps such state in RocksDB only: set "
            f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}"), or give design="files"'
        )


def _keys(spark: SparkSession, lanes: int) -> list[int]:
    """A key per lane, such that no two share a partition, as far as there are enough."""
    parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    part = F.expr(f"pmod(hash(cast(id as int)), {parts})").alias("part")
    found: dict[int, list[int]] = {}
    for row in spark.range(16 * max(parts, lanes)).select("id", part).collect():
        found.setdefault(row["part"], []).append(row["id"])
    turns = [keys[k] for k in range(lanes) for keys in found.values() if k < len(keys)]
    return turns[:lanes]


def packed(rows: pa.Table, part: int, keys: list[int]) -> Iterator[pa.RecordBatch]:
    """Messages of the rows of one partition: all of them for every lane, which keeps a share."""
    number = 0
    for is_right in (False, True):
        own = rows.filter(pc.field(IS_RIGHT) == is_right).drop_columns([IS_RIGHT]).combine_chunks()
        for k, keeper in enumerate(keys):
            first, last = (own.num_rows * n // len(keys) for n in (k, k + 1))
            if first == last:
                continue
            message = _message(own.slice(first, last - first))
            for lane in keys:
                values = (lane, part, number, is_right, lane == keeper, message)
                arrays = [pa.array([v], t) for v, (_, t) in zip(values, _FIELDS, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(_FIELDS))
            number += 1


def _message(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def _table(message: bytes) -> pa.Table:
    with pa.ipc.open_stream(message) as reader:
        return reader.read_all()


class StateRows(RowStore):
    """Rows in the state of one lane, by number.

    Parameters
    ----------
    handle : StatefulProcessorHandle
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._map = handle.getMapState("rows", "number long", "rows binary")
        self.following = 0

    def add(self, batch: int, table: pa.Table) -> tuple[str, int]:
        message, number = _message(table), self.following
        self.following += 1
        self._map.updateValue((number,), (message,))
        # An attempt that failed has used this number, too, maybe for other rows.
        return f"{number}-{uuid.uuid4().hex}", len(message)

    def read(self, file: StoredFile) -> pa.Table:
        found = self._map.getValue((_number(file),))
        assert found is not None  # the record names it
        return _table(found[0]).combine_chunks()

    def remove(self, file: StoredFile) -> None:
        """Forget the rows under a name."""
        self._map.removeKey((_number(file),))


def _number(file: StoredFile) -> int:
    return int(file.name.partition("-")[0])


class LaneRows(StoredRows):
    """What a step reads in one lane: all new rows, and those that the lane keeps."""

    def __init__(
        self,
        spec: JoinSpec,
        store: RowStore,
        commit: Commit,
        new: dict[str, Loaded],
        kept: dict[str, Loaded],
        residence: Residence | None,
    ) -> None:
        super().__init__(spec, store, commit, residence)
        self._new, self._kept = new, kept

    def new(self, side: str) -> Loaded:
        return self._new[side]

    def entering(self, side: str) -> Loaded:
        kept = self._kept[side]
        if self.residence is None or not len(kept.rows):
            return kept
        # As it was stored, and as the next step will find it.
        (file,) = self.commit.new[side]
        return Loaded.of_block(*self.block(side, file), NEVER, FOREVER)


@dataclass(frozen=True)
class _Arrived:
    """Rows of one side of a micro-batch: all, and those that the lane keeps."""

    every: Admitted
    kept: Admitted
    rows: int


class LaneProcessor(StatefulProcessor):
    """One lane of a join, with its window in Spark's state.

    Parameters
    ----------
    spec : JoinSpec
    keys : list of int
        Of all lanes.
    """

    def __init__(self, spec: JoinSpec, keys: list[int]) -> None:
        self.spec, self.keys = spec, keys

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._record = handle.getValueState("record", "text string")
        self._rows = StateRows(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        messages: list[Any] = [row for one in rows for row in one.itertuples(index=False)]
        messages.sort(key=lambda row: (row.part, row.number))
        before = self._before()
        query = self.spec.query()
        frontier = Frontier(query, before.after)
        arrived = {
            side: self._arrived(frontier, side, [m for m in messages if m.is_right == is_right])
            for side, is_right in ((LEFT, False), (RIGHT, True))
        }
        commit = self._taken_in(frontier, before, arrived)
        nothing = dict.fromkeys(COLUMNS)
        new = {side: one.every.loaded for side, one in arrived.items()}
        kept = {side: one.kept.loaded for side, one in arrived.items()}

        def read(home: Residence | None) -> LaneRows:
            return LaneRows(self.spec, self._rows, commit, new, kept, home)

        ended: list[Stats] = []
        for batch in run_step(self.spec, self._scope, commit, read, ended.append):
            message = _message(pa.Table.from_batches([batch]))
            yield pd.DataFrame([{"rows": message, **nothing}])
        self._put(commit)
        lane = self.keys.index(int(key[0]))
        files = [file for own in commit.blocks().values() for file in own]
        figures = columns_of(
            LaneFigures.of(lane, ended[0]),
            {
                "window_rows": sum(file.rows for file in files),
                "window_bytes": sum(file.bytes for file in files),
            },
            {side: one.rows for side, one in arrived.items()},
            {side: len(one.every.late) for side, one in arrived.items()},
        )
        yield pd.DataFrame([{"rows": None, **figures}])

    def close(self) -> None:
        """Nothing is left open."""

    def _before(self) -> Commit:
        """The record of the lane's last micro-batch."""
        found = self._record.get() if self._record.exists() else None
        if found is None:
            self._scope = uuid.uuid4().hex
            return Commit()
        record = json.loads(found[0])
        self._scope = record.get("scope") or uuid.uuid4().hex
        wanted = json.loads(json.dumps(identity(self.spec)))
        changed = [name for name in wanted if record["query"].get(name) != wanted[name]]
        if changed:
            raise UsageError(
                f"the checkpoint is of another query (changed: {', '.join(changed)}): its window "
                "does not fit; start the query as it was, or with another checkpointLocation"
            )
        self._rows.following = record["following"]
        return Commit.of(record["commit"])

    def _put(self, commit: Commit) -> None:
        record = {
            "query": identity(self.spec),
            "following": self._rows.following,
            "scope": self._scope,
            "commit": commit.as_json(),
        }
        self._record.update((json.dumps(record),))

    def _arrived(self, frontier: Frontier, side: str, messages: list) -> _Arrived:
        own, none = frontier.query.side(side), self.spec.side_schema(side).empty_table()
        tables = [self.spec.side_table(side, _table(m.rows)) for m in messages]
        every = pa.concat_tables([none, *tables]).combine_chunks()
        share = [t for t, m in zip(tables, messages, strict=True) if m.kept]
        if len(share) == len(tables):
            taken = admitted(frontier, own, every)
            return _Arrived(taken, taken, every.num_rows)
        kept = pa.concat_tables([none, *share]).combine_chunks()
        return _Arrived(
            admitted(frontier, own, every), admitted(frontier, own, kept), every.num_rows
        )

    def _taken_in(self, frontier: Frontier, before: Commit, arrived: dict[str, _Arrived]) -> Commit:
        """Forget what no row can meet any more, and keep the new rows."""
        blocks = before.blocks()
        keep = needed(frontier, {s: [f.block for f in own] for s, own in blocks.items()})
        old: dict[str, list[StoredFile]] = {LEFT: [], RIGHT: []}
        for side, files in blocks.items():
            for file, is_kept in zip(files, keep[side], strict=True):
                if is_kept:
                    old[side].append(file)
                else:
                    self._rows.remove(file)
        new: dict[str, list[StoredFile]] = {LEFT: [], RIGHT: []}
        after = dict(before.after)
        for side, one in arrived.items():
            own, loaded = frontier.query.side(side), one.kept.loaded
            if len(loaded.rows):
                new[side].append(write(self._rows, before.batch + 1, frontier, own, loaded))
            if one.every.loaded.rows.time.size or len(one.every.late):
                after[side] = max(after[side], one.every.latest - self.spec.disorder[side])
        commit = Commit(
            batch=before.batch + 1,
            before=before.after,
            after=after,
            old=old,
            new=new,
            arrived={s: before.arrived[s] + one.rows for s, one in arrived.items()},
            late_rows={s: before.late_rows[s] + len(o.every.late) for s, o in arrived.items()},
        )
        return self._merged(frontier, commit)

    def _merged(self, frontier: Frontier, commit: Commit) -> Commit:
        """The same rows under fewer names, where there are many."""
        done = [(m, merged(self.spec, self._rows, commit, m)) for m in merges(frontier, commit)]
        for merge, _ in done:
            for file in commit.old[merge.side][merge.first : merge.last]:
                self._rows.remove(file)
        return replace(commit, old=replaced(commit.old, done))
