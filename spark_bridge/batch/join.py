"""The join of two batch DataFrames: what is decided on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import UsageError
from penstock.host.device.cpu import CpuDevice
from penstock.host.operators import table_join
from penstock.query.plan import JoinQuery, named_by_side
from penstock.spark_bridge.batch.blobs import BLOB, BUCKET, SPARK_SCHEMA
from penstock.spark_bridge.batch.choose import Choice
from penstock.spark_bridge.batch.decide import decided
from penstock.spark_bridge.batch.lane import LaneJoin
from penstock.spark_bridge.batch.lanes import Lanes, RowsLanes
from penstock.spark_bridge.batch.merge import GroupMerge
from penstock.spark_bridge.batch.reader import LANE, PLACE, STREAMED
from penstock.spark_bridge.inputs import TICKS, Input, needs_places
from penstock.spark_bridge.request import Request
from penstock.spark_bridge.types import output_schema, spark_schema

_PARTITIONINGS = ("auto", "time", "grid")


@dataclass(frozen=True)
class BatchPlan:
    """How a request over batch DataFrames is run.

    Parameters
    ----------
    request : Request
    inputs : mapping of side to Input
    halves : tuple of Choice
        One, but for a full join: its left join, and the rows of the right side that match nothing.
    output : pyarrow.Schema
    """

    request: Request
    inputs: Mapping[str, Input]
    halves: tuple[Choice, ...]
    output: pa.Schema

    @staticmethod
    def of(request: Request, lanes: int | None, partitioning: str | None) -> BatchPlan:
        """Decide; one or two small jobs look at the inputs, if several lanes are possible.

        Raises
        ------
        QueryError, UsageError
        """
        if lanes is not None and lanes < 1:
            raise UsageError(f"lanes must be at least 1, not {lanes!r}")
        if partitioning is not None and partitioning not in _PARTITIONINGS:
            raise UsageError(
                f"partitioning must be one of {', '.join(_PARTITIONINGS)}, not {partitioning!r}"
            )
        conf = request.conf
        conf = replace(
            conf,
            lanes=conf.lanes if lanes is None else lanes,
            partitioning=partitioning or conf.partitioning,
        )
        request = replace(request, conf=conf)
        query = request.query
        schemas = {s.side: request.schemas[s.table] for s in query.sides}
        # What the join refuses is refused here, before any job.
        output = output_schema(_joined_schema(query, schemas))
        inputs = {s.side: Input(query, s, request.frames[s.table]) for s in query.sides}
        return BatchPlan(request, inputs, decided(request, inputs), output)

    def frame(self) -> DataFrame:
        """The result."""
        parts = [self._half(k, half) for k, half in enumerate(self.halves)]
        if self.request.query.aggregation is not None:
            return self._merged(parts[0])
        rows = reduce(DataFrame.union, parts)
        ordering = self.request.ordering
        return rows if ordering is None else ordering.sorted(rows, self.request.query)

    def _half(self, number: int, choice: Choice) -> DataFrame:
        """The rows of a half, or its partial aggregates."""
        lanes = choice.lanes
        left, right = (self._placed(one, lanes) for one in self.inputs.values())
        moved = left.union(right).repartitionById(lanes.count, LANE)
        # Held rows come first; parts that are near in time meet few of them.
        order = [STREAMED, *([TICKS] if TICKS in moved.columns else [])]
        moved = moved.sortWithinPartitions(*order).drop(TICKS)
        if not isinstance(lanes, RowsLanes):
            moved = moved.drop(LANE)
        groups = self.request.query.aggregation is not None
        lane_join = LaneJoin(
            self.request.compiled,
            lanes.side,
            {side: one.slot_of for side, one in self.inputs.items()},
            self.output,
            self.request.device,
            self.request.conf,
            existence=number == 1,
            owned=lanes.owned if isinstance(lanes, RowsLanes) else None,
            buckets=self._buckets if groups else 1,
        )

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return lane_join.run(batches)

        return moved.mapInArrow(run, SPARK_SCHEMA if groups else spark_schema(self.output))

    def _placed(self, one: Input, lanes: Lanes) -> DataFrame:
        """A side's rows, each once per lane, with the columns of both."""
        found = lanes.of(one.name, one.moment, one.hashed)
        if lanes.is_copied(one.name):
            found = F.explode(found)
        extra = [found.alias(LANE), F.lit(one.name != lanes.side).alias(STREAMED)]
        if all(each.clock is not None for each in self.inputs.values()):
            extra.append(F.col(TICKS))
        if needs_places(self.request.query):
            extra.append(F.col(PLACE))
        slots = {slot: dtype for each in self.inputs.values() for slot, dtype in each.slots.items()}
        return one.selected(slots, extra)

    @property
    def _buckets(self) -> int:
        aggregation = self.request.query.aggregation
        assert aggregation is not None
        return self.halves[0].lanes.count if aggregation.keys else 1

    def _merged(self, partial: DataFrame) -> DataFrame:
        """Groups of the partial aggregates of all lanes."""
        aggregation = self.request.query.aggregation
        assert aggregation is not None
        if not aggregation.keys:
            # The one group is there even where nothing joins.
            empty = F.lit(b"").cast("binary").alias(BLOB)
            seed = self.request.spark.range(1).select(F.lit(0).alias(BUCKET), empty)
            partial = partial.union(seed)
        merge = GroupMerge(
            self.request.compiled,
            self.output,
            self.request.conf.output_rows,
        )

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return merge.run(batches)

        return partial.repartitionById(self._buckets, BUCKET).mapInArrow(
            run, spark_schema(self.output)
        )


def _joined_schema(query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """Schema of the join's output."""
    empty = {side: schema.empty_table() for side, schema in schemas.items()}
    with CpuDevice(threads=1) as unused:
        return table_join(query)(named_by_side(query), empty, unused).schema
