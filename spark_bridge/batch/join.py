"""The join of two batch DataFrames: everything that the driver decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.errors import UsageError

from ..blobs import SCHEMA, merged
from ..conf import PARTITIONINGS
from ..inputs import TICKS, Input, in_one_partition, union_of
from ..request import CallSettings, Request, result_schema
from ..shown import described, join_text, task_of
from ..types import spark_schema
from .choose import Choice
from .decide import decide
from .explain import describe
from .reader import PLACE, SHARD, STREAMED
from .shard import ShardJoin
from .shards import RowsShards, Shards


@dataclass(frozen=True)
class BatchPlan:
    """A request over batch DataFrames, with the shards of each of its halves.

    Parameters
    ----------
    request : Request
    inputs : mapping of side to Input
    halves : tuple of Choice
        One; a full join has two: its left join, and the right rows without a match.
    output : pyarrow.Schema
    """

    request: Request
    inputs: Mapping[str, Input]
    halves: tuple[Choice, ...]
    output: pa.Schema

    @staticmethod
    def for_request(request: Request, settings: CallSettings) -> BatchPlan:
        """Plan a request; if several shards may be worth while, small jobs read the inputs.

        Raises
        ------
        QueryError, UsageError
        """
        partitioning, conf = settings.partitioning, request.conf
        if partitioning is not None and partitioning not in PARTITIONINGS:
            raise UsageError(
                f"partitioning must be one of {', '.join(PARTITIONINGS)}, not {partitioning!r}"
            )
        lanes = conf.lanes if settings.lanes is None else settings.lanes
        if partitioning is None and request.wanted is not None:
            partitioning = "keys"
        conf = replace(conf, lanes=lanes, partitioning=partitioning or conf.partitioning)
        request = replace(request, conf=conf)
        query = request.query
        # Raises what the join would raise, before any job runs.
        output = result_schema(query, request.compiled.schemas)
        inputs = {s.side: Input(query, s, request.frames[s.table]) for s in query.sides}
        with described(request.spark, f"counts rows for the lanes of the {join_text(query)}"):
            return BatchPlan(request, inputs, decide(request, inputs), output)

    def explained(self, *, extended: bool = False) -> str:
        """Describe how the query will run, a fact per line."""
        return describe(self, extended=extended)

    def frame(self) -> DataFrame:
        """Return the result."""
        if (native := self.halves[0].native) is not None:
            return native.frame(self.request, self.inputs, self.output)
        parts = [self._half(k, half) for k, half in enumerate(self.halves)]
        request = self.request
        if request.query.aggregation is not None:
            rows = request.conf.output_rows
            return merged(parts[0], request.compiled, self.output, self._buckets, rows)
        rows = reduce(DataFrame.union, parts)
        ordering = request.compiled.ordering
        return rows if ordering is None else ordering.sort(rows, request.query)

    def _half(self, number: int, choice: Choice) -> DataFrame:
        """The rows of a half, or its partial aggregates."""
        shards = choice.shards
        # One job of one task costs less than a shuffle of few rows.
        is_sorted = not choice.is_cheap and self._needs_order(choice)
        moved = self._together(choice) if choice.is_cheap else self._in_shards(shards, is_sorted)
        groups = self.request.query.aggregation is not None
        shard_join = ShardJoin(
            self.request.compiled,
            shards.side,
            {side: one.slot_of for side, one in self.inputs.items()},
            self.output,
            self.request.device,
            self.request.conf,
            is_mixed=not is_sorted,
            existence=number == 1,
            owned=shards.owned if isinstance(shards, RowsShards) else None,
            buckets=self._buckets,
        )

        query = self.request.query
        work = task_of(join_text(query), lambda batches: shard_join.run(batches))
        return moved.mapInArrow(work, spark_schema(SCHEMA if groups else self.output))

    def _together(self, choice: Choice) -> DataFrame:
        """Return the rows of both sides in one partition."""
        extra = {side: [f"{side != choice.shards.side} AS {STREAMED}"] for side in self.inputs}
        return in_one_partition(self.inputs.values(), extra)

    def _needs_order(self, choice: Choice) -> bool:
        """Whether Spark sorts the rows of lanes: not where a task reads the streamed ones at once.

        A task that has more of them than was estimated keeps some on its disk.
        """
        rows = choice.moved / choice.shards.count
        if self.request.query.nearest is not None:
            return False  # a task sorts all rows by their places
        is_placed = any(one.has_places for one in self.inputs.values())
        return is_placed or not 0 < rows <= self.request.conf.part_rows

    def _in_shards(self, shards: Shards, is_sorted: bool) -> DataFrame:
        """Send rows of both sides to their shards, and there sort the held side's first."""
        placed = {side: self._placed(one, shards) for side, one in self.inputs.items()}
        moved = union_of(self.inputs.values(), placed)
        moved = moved.repartitionById(shards.count, SHARD)
        if is_sorted:
            # Streamed rows are sorted by time, so a part of them meets few.
            order = [STREAMED, *([TICKS] if TICKS in moved.columns else [])]
            moved = moved.sortWithinPartitions(*order)
        moved = moved.drop(TICKS)
        return moved if isinstance(shards, RowsShards) else moved.drop(SHARD)

    def _placed(self, one: Input, shards: Shards) -> list[Column]:
        """Columns beside the slots; a row that goes to several shards is copied for each."""
        shard = shards.row_shards(one.name, one.moment, one.hashed)
        if shards.is_copied(one.name):
            shard = F.explode(shard)
        extra = [shard.alias(SHARD), F.lit(one.name != shards.side).alias(STREAMED)]
        if all(each.clock is not None for each in self.inputs.values()):
            extra.append(F.col(TICKS))
        if one.has_places:
            extra.append(F.col(PLACE))
        return extra

    @property
    def _buckets(self) -> int:
        """Tasks that merge groups."""
        aggregation = self.request.query.aggregation
        has_keys = aggregation is not None and bool(aggregation.keys)
        return self.halves[0].shards.count if has_keys else 1
