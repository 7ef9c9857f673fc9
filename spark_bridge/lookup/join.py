"""The join of a DataFrame, batch or streaming, with a relation: what the driver decides."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import QueryError, UsageError
from penstock.host.join.lookup.as_of import at_versions
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.prune.sizes import pruning_sizes
from penstock.host.relation import FolderRelation, Relation, open_relation
from penstock.plan.group_query import is_per_row
from penstock.plan.lookup import LookupPlan
from penstock.uses import Way

from ..arrival_sort import OF_JOINED_ROWS
from ..blobs import SCHEMA, merged
from ..devices import shared_device
from ..filters import push
from ..inputs import SlotRows, computed, identifier
from ..metrics.lookups import observe, with_figures
from ..request import CallSettings, JoinOptions, Request, frame_of, query_options, result_schema
from ..session_settings import shuffle_partitions
from ..shown import task_of
from ..types import spark_schema
from .arcs import ArcOf, MeetingPlace, WantedPlace
from .task import SOME_COLUMN, LookupTask
from .versions import DRIVER, FixedVersion, OwnSnapshot, PinnedVersion

#: Spark's setting of how many micro-batches a query can go back to.
_RETAINED = "spark.sql.streaming.minBatchesToRetain"


def version_of(
    spark: SparkSession,
    frame: DataFrame,
    table: RelationTable,
    stored: Relation,
    pins: str | None,
) -> FixedVersion | OwnSnapshot | PinnedVersion:
    """Return the rule by which tasks choose the version that their rows meet.

    Raises
    ------
    UsageError, FileError
    """
    if not isinstance(stored, FolderRelation):
        if frame.isStreaming or pins is not None:
            raise UsageError(
                f"{stored.name} has no versions that could be pinned, so a micro-batch that Spark "
                "repeats could meet other rows: join the batch DataFrame that foreachBatch gives, "
                "or store a copy with `penstock relation build`"
            )
        return OwnSnapshot()
    if frame.isStreaming:
        fixed = table.version
        if fixed is None and table.refresh == "start":
            fixed = stored.newest()
        kept = int(spark.conf.get(_RETAINED, None) or "100")
        return PinnedVersion(table.location, pins, fixed, kept)
    return FixedVersion(DRIVER.pin(stored, table.version))


@dataclass(frozen=True)
class LookupCall:
    """A checked call whose query looks up rows of a relation.

    Parameters
    ----------
    spark : SparkSession
    plan : LookupPlan
    rows : SlotRows
        The DataFrame.
    task : LookupTask
    place : MeetingPlace
    arc_of : ArcOf
    """

    spark: SparkSession
    plan: LookupPlan
    rows: SlotRows
    task: LookupTask
    place: MeetingPlace
    arc_of: ArcOf

    @staticmethod
    def checked(
        spark: SparkSession,
        text: str,
        tables: Mapping[str, DataFrame | str | RelationTable],
        options: JoinOptions,
        settings: CallSettings,
    ) -> LookupCall:
        """Check a call; one of the tables is a relation.

        Raises
        ------
        QueryError, SchemaError, UsageError, DeviceError, FileError
        TypeError
            There is no such option.
        """
        wanted = WantedPlace(settings.partitioning, settings.lanes, settings.ordered)
        ((name, table),) = ((n, t) for n, t in tables.items() if isinstance(t, RelationTable))
        frames = {
            one: frame_of(spark, one, frame)
            for one, frame in tables.items()
            if not isinstance(frame, RelationTable)
        }
        ways = () if any(frame.isStreaming for frame in frames.values()) else (Way.BATCH,)
        chosen = query_options(spark, text, options, *ways, unique=settings.unique, relation=name)
        text, fixed = at_versions(text, {name: table}, chosen)
        table = fixed[name]
        with closing(open_relation(table.location)) as stored:
            request = Request.checked(
                spark, text, frames, options, chosen, relations={name: stored.schema}
            )
            lookup_plan = LookupPlan(request.query, name, stored.found_by)
            return LookupCall._for_request(request, lookup_plan, table, stored, settings, wanted)

    @staticmethod
    def _for_request(
        request: Request,
        lookup_plan: LookupPlan,
        table: RelationTable,
        stored: Relation,
        settings: CallSettings,
        wanted: WantedPlace,
    ) -> LookupCall:
        """Plan a request whose rows meet an open relation."""
        spark, conf, query = request.spark, request.conf, request.query
        outer, inner = lookup_plan.outer, lookup_plan.inner.side
        frame = request.frames[outer.table]
        _check_groups(lookup_plan, frame.isStreaming, settings.ordered)
        rows = SlotRows(query, outer, frame)
        condition, _ = push(outer.filter, rows.column)
        if condition is not None:
            rows.frame = rows.frame.filter(condition)
        memory = settings.memory_bytes
        lookup = table.options(
            conf.lookup_memory if memory is None else memory,
            ordered=settings.ordered,
            pruning=pruning_sizes(conf.pruning),
        )
        versions = version_of(spark, frame, table, stored, settings.pins)
        task = LookupTask(
            request.compiled,
            inner,
            table,
            stored.id,
            rows.slot_of,
            replace(lookup, refresh=False),
            versions,
            result_schema(query, request.compiled.schemas, nullable=frame.isStreaming),
            request.device,
            conf,
        )
        # Raises what each task would raise; the device has no part in that.
        number = stored.newest()
        if not isinstance(versions, OwnSnapshot):
            number = versions.number or number
        join = task.new(stored, number, shared_device("cpu"))
        place = wanted.choose(
            lookup_plan,
            join.version,
            join.split,
            shuffled=shuffle_partitions(spark),
            kept_joins=conf.resident_bytes // lookup.memory_bytes if conf.resident else 0,
            is_remote="://" in table.location,
            has_nodes=table.nodes is not None,
        )
        task = replace(task, arcs=place.arcs, is_watched=frame.isStreaming)
        hash_name, lanes = stored.key_hash.name, place.lanes or 1
        arc_of = ArcOf(request.compiled, inner, lookup_plan.key, hash_name, lanes)
        return LookupCall(spark, lookup_plan, rows, task, place, arc_of)

    def explained(self, *, extended: bool = False) -> str:
        """Describe how the query will run, a fact per line."""
        from .explain import describe

        return describe(self, extended=extended)

    @property
    def is_streaming(self) -> bool:
        return self.rows.frame.isStreaming

    def frame(self) -> DataFrame:
        """Return the result: a batch or a streaming DataFrame, like the one that is joined."""
        moved = self.rows.select(self.rows.slots, ())
        if not self.rows.slots:
            moved = self.rows.frame.select(F.lit(True).alias(SOME_COLUMN.names[0]))
        if self.place.lanes is not None:
            moved = self._sent(moved, self.place.lanes)
        aggregation, output = self.plan.query.aggregation, self.task.output
        if self.is_streaming:
            sent = _mapped(moved, self.task, with_figures(output))
            return observe(sent, self.plan.outer.alias, self.task.relation.shown)
        if aggregation is None or is_per_row(self.plan.query):
            return _mapped(moved, self.task, output)
        buckets = shuffle_partitions(self.spark) if aggregation.keys else 1
        partial = _mapped(moved, replace(self.task, buckets=buckets), SCHEMA)
        return merged(partial, self.task.compiled, output, buckets, self.task.conf.output_rows)

    def _sent(self, moved: DataFrame, lanes: int) -> DataFrame:
        """Send rows to the partitions in which they meet the relation."""
        if not self.place.has_arcs:
            return moved.repartition(lanes)
        arc_of = self.arc_of

        def arc(*columns: pa.Array) -> pa.Array:
            return arc_of(columns)

        slot_of, names = self.rows.slot_of, self.plan.sought_key_columns
        slots = [F.col(identifier(slot_of[name])) for name in names]
        return moved.repartitionById(lanes, computed(arc, "int", slots))


def _mapped(frame: DataFrame, task: LookupTask, schema: pa.Schema) -> DataFrame:
    work = task_of(f"lookup in {task.relation.shown}", lambda batches: task.run(batches))
    return frame.mapInArrow(work, spark_schema(schema))


def _check_groups(lookup_plan: LookupPlan, is_streaming: bool, ordered: bool) -> None:
    """Refuse groups in an order, and groups of a stream that later rows may belong to.

    Raises
    ------
    QueryError
    """
    if lookup_plan.query.aggregation is None:
        return
    if ordered:
        raise QueryError(OF_JOINED_ROWS)
    if is_streaming:
        lookup_plan.require_per_row("; unique is for penstock.spark_bridge.stream")
