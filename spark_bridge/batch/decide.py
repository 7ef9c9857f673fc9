"""Decides how a batch join is cut into shards, from their sizes or small jobs over its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import UsageError
from penstock.plan.query import LEFT, RIGHT, JoinKind

from ..clock import TickClock
from ..inputs import TICKS, Input
from ..key_choice import find_keys, require_keys, why_not_by_keys
from ..request import Request
from ..session_settings import parallelism, shuffle_partitions
from .by_keys import better, choices_by_keys, may_be_better
from .choose import Choice, Limits, choose, dividable, one_shard
from .native import NativeJoin
from .rows_shards import shards_of_rows
from .shards import at_threshold
from .small import small
from .statistics import Spread, clocks_of, counted

#: Quantile steps per possible shard, and the least and most steps in all.
_STEPS_PER_SHARD, _LEAST_STEPS, _MOST_STEPS = 8, 64, 1024

#: Accuracy of quantiles: a bound may be off by one in 10,000 of the rows.
_ACCURACY = 10_000


def decide(request: Request, inputs: Mapping[str, Input]) -> tuple[Choice, ...]:
    """Choose the shards of each half of the join.

    Raises
    ------
    UsageError
        The partitioning that was asked for is impossible.
    """
    query, conf = request.query, request.conf
    is_timed = all(one.clock is not None for one in inputs.values())
    partitioning = conf.partitioning
    if partitioning == "grid" and query.is_rows:
        raise UsageError(
            "a ROWS window is over rows in order of time, which a grid does not keep; use "
            'partitioning="time" or "auto"'
        )
    if partitioning == "time" and not is_timed:
        raise UsageError(
            "the time of a side is computed in a way that Spark cannot follow, so it cannot be "
            'cut; compute it with withColumn, or use partitioning="grid"'
        )
    if partitioning == "keys":
        require_keys(query, request.wanted)
    is_full = query.aggregation is None and query.kind is JoinKind.FULL
    halves = [[LEFT], [RIGHT]] if is_full else [dividable(query)]
    most = conf.lanes or shuffle_partitions(request.spark)
    why = ""
    if most == 1:
        why = "one lane was asked for" if conf.lanes else "spark.sql.shuffle.partitions is 1"
    elif query.is_rows and not is_timed:
        why = "a side's time is computed, and Spark cannot cut it; compute it with withColumn"
    elif query.is_rows and not all(one.is_filtered for one in inputs.values()):
        why = (
            "Spark cannot test all of WHERE as Penstock does, so it cannot count the rows of a "
            "window; filter the DataFrames"
        )
    if why:
        return tuple(one_shard(sides[0], why) for sides in halves)
    is_free = partitioning == "auto" and not conf.lanes
    if is_free and (tiny := small(request, inputs)) is not None:
        ones = (one_shard(sides[0], tiny.reason) for sides in halves)
        return tuple(replace(one, is_cheap=tiny.is_cheap) for one in ones)
    native = NativeJoin.of_request(request, inputs) if is_free else None
    if native is not None and (why := native.why_faster(request, inputs)):
        return (replace(one_shard(LEFT, why), native=native),)
    is_searched = query.nearest or (conf.pruning and find_keys(query, request.wanted))
    if not is_timed and not conf.lanes and is_searched:
        # Tasks look at few of the pairs, so that more lanes than run at a time only copy rows.
        most = min(most, parallelism(request.spark))
    limits = Limits(most, conf.lanes > 0, conf.lane_rows, conf.most_lane_rows)
    spreads = _spreads(inputs, most)
    if not query.is_rows:
        return _over_time(request, inputs, spreads, limits, halves)
    clocks = clocks_of(spreads)
    # Segments, and the rows around them, may begin at these times.
    edges = sorted({time for one in spreads.values() for time in one.times()})
    counts = _counts(inputs, clocks, edges)
    return tuple(shards_of_rows(query, clocks, edges, counts, limits, sides) for sides in halves)


def _over_time(
    request: Request,
    inputs: Mapping[str, Input],
    spreads: Mapping[str, Spread],
    limits: Limits,
    halves: Sequence[Sequence[str]],
) -> tuple[Choice, ...]:
    """The shards of each half of a join over a time window."""
    query, partitioning, pruning = request.query, request.conf.partitioning, request.conf.pruning
    if partitioning == "keys":
        return choices_by_keys(request, inputs, spreads, limits, halves)
    choices = tuple(choose(query, spreads, limits, partitioning, sides) for sides in halves)
    if partitioning != "auto":
        return choices
    why = why_not_by_keys(query, request.wanted)
    if why is None and may_be_better(query, spreads, choices, pruning=pruning):
        keys = choices_by_keys(request, inputs, spreads, limits, halves)
        pairs = zip(keys, choices, strict=True)
        return tuple(better(keyed, other, pruning=pruning) for keyed, other in pairs)
    why = why or "they could not save enough rows to be worth counting"
    return tuple(replace(other, keys=f"not by keys: {why}") for other in choices)


def _spreads(inputs: Mapping[str, Input], most: int) -> dict[str, Spread]:
    """Distribution of both sides' rows in time, from one job."""
    steps = min(max(_STEPS_PER_SHARD * most, _LEAST_STEPS), _MOST_STEPS)
    fractions = [k / steps for k in range(steps + 1)]
    summaries = []
    for side, one in inputs.items():
        rows, quantiles = F.count(F.lit(1)), F.lit(None).cast("array<bigint>")
        if one.clock is not None:
            rows = F.count(TICKS)
            quantiles = F.percentile_approx(TICKS, fractions, _ACCURACY)
        columns = F.lit(side).alias("side"), rows.alias("rows"), quantiles.alias("quantiles")
        summaries.append(one.frame.agg(*columns))
    collected = reduce(DataFrame.union, summaries).collect()
    return {
        row["side"]: Spread(row["rows"], inputs[row["side"]].clock, row["quantiles"] or [])
        for row in collected
    }


def _counts(
    inputs: Mapping[str, Input], clocks: Mapping[str, TickClock], edges: Sequence[int]
) -> dict[str, np.ndarray]:
    """Exact numbers of rows of both sides before, between and after edges, from one job."""
    numbers = {}
    for side, one in inputs.items():
        least = [clocks[side].reaches(edge) for edge in edges]
        timed = one.frame.filter(F.col(TICKS).isNotNull())
        numbers[side] = timed.select(at_threshold(F.col(TICKS), least, F.lit))
    return counted(numbers, len(edges) + 1)
