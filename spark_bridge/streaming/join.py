"""Plans a join of streaming DataFrames, up to its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.around.parts import Closing
from penstock.errors import QueryError, UsageError
from penstock.host.prune.sizes import pruning_sizes
from penstock.host.windows.source import Span, StreamSource, check_names
from penstock.plan.plan import plan
from penstock.plan.query import LEFT, RIGHT, JoinQuery, Side
from penstock.plan.window import FOREVER

from ..arrival_sort import OF_JOINED_ROWS
from ..inputs import SlotRows, union_of
from ..metrics.listener import watch
from ..request import CallSettings, Request, result_schema
from ..session_settings import parallelism
from ..stream_frame import After, StreamFrame, as_they_are
from .commit import BatchRecord
from .explain_stream import describe
from .identity import check_folder
from .microbatch import complete_rows, output_of, shards_of
from .place import QueryPlace
from .spec import IS_RIGHT, JoinSpec, Rules
from .waiting_rows import WaitRule
from .writer import StreamingJoinWriter, joined_rows

#: Metadata in which Spark keeps the delay that withWatermark was given.
_DELAY_MS = "spark.watermarkDelayMs"


def disorder_of(
    query: JoinQuery, tables: Mapping[str, DataFrame], disorder: Span | Mapping[str, Span] | None
) -> dict[str, int]:
    """Disorder per side, in the window's unit.

    Raises
    ------
    UsageError
        Nothing says how far out of order a source may be.
    """
    check_names(disorder, query.sides)
    named, default = (disorder, None) if isinstance(disorder, Mapping) else ({}, disorder)
    spans = {name.lower(): span for name, span in named.items()}
    by_side = {}
    for side in query.sides:
        span = spans.get(side.alias.lower(), spans.get(side.table.lower(), default))
        if span is None:
            span = _delay(side, tables[side.table])
        by_side[side.side] = StreamSource(side, {side.alias: span}).disorder
    return by_side


def _delay(side: Side, table: DataFrame) -> timedelta:
    """The delay that ``withWatermark`` was given for a side's time."""
    column = StreamSource(side, 0).column
    assert column is not None
    name = column.attr[1]
    metadata = next(f.metadata for f in table.schema if f.name == name)
    if _DELAY_MS not in metadata:
        raise UsageError(
            f"{side.alias} has no watermark on {name}, so it is not known when a window is "
            f'complete: give table {side.table} as frame.withWatermark("{name}", "5 minutes"), '
            f"or say disorder={{'{side.alias}': timedelta(minutes=5)}} (for a time column of "
            "integers: a number in its unit)"
        )
    return timedelta(milliseconds=metadata[_DELAY_MS])


@dataclass(frozen=True, repr=False, eq=False)
class StreamingJoin(StreamFrame):
    """A join of two streams, planned and ready to start.

    Parameters
    ----------
    spark : SparkSession
    spec : JoinSpec
    rows : DataFrame
        Of both sides.
    lanes : int or None
    after : callable
        Computes the output of each micro-batch from the joined rows, row by row.

    Notes
    -----
    It has the methods of Spark's DataFrames that are row by row.
    """

    spark: SparkSession
    spec: JoinSpec
    rows: DataFrame
    lanes: int | None
    after: After = as_they_are

    @staticmethod
    def for_request(request: Request, settings: CallSettings) -> StreamingJoin:
        """Plan the join of a request; errors as for :func:`penstock.spark_bridge.stream`."""
        query, frames = request.query, request.frames
        for side in query.sides:
            if not frames[side.table].isStreaming:
                raise UsageError(
                    f"table {side.table} is no stream; join a stream with a stream (readStream), "
                    "with a relation (store the table by penstock.spark_bridge.relation and give "
                    "penstock.relation(path)), or two batch DataFrames with "
                    "penstock.spark_bridge.sql"
                )
        plan(query).require_stepwise()
        sides = [SlotRows(query, side, frames[side.table]) for side in query.sides]
        pruning, idle = settings.pruning, settings.idle
        spec = JoinSpec(
            request.compiled,
            disorder_of(query, frames, settings.disorder),
            {one.name: one.slot_of for one in sides},
            result_schema(query, request.compiled.schemas, nullable=True),
            request.device,
            pruning_sizes(True if pruning is None else pruning),
            None if idle is None else idle.total_seconds(),
            Rules.for_request(request, settings.partitioning),
        )
        if request.conf.metrics_port is not None:
            watch(request.spark)
        # Nothing is filtered here: rows that WHERE leaves out may be late, and are counted.
        rows = union_of(sides, {s: [F.lit(s == RIGHT).alias(IS_RIGHT)] for s in (LEFT, RIGHT)})
        return StreamingJoin(request.spark, spec, rows, settings.lanes)

    @property
    def sparkSession(self) -> SparkSession:
        return self.spark

    def joined(self) -> DataFrame:
        return joined_rows(self.spark, self.spec)

    def waits(self, closing: Closing, text: str, of_joined: After, valued: After) -> StreamingJoin:
        if self.spec.compiled.ordering is not None:
            raise QueryError(OF_JOINED_ROWS)
        waiting = WaitRule(closing, text, of_joined, valued)
        return self.but(spec=replace(self.spec, waiting=waiting))

    @property
    def writeStream(self) -> StreamingJoinWriter:
        """Writer that sets the output and starts the query, as a DataFrame's does."""
        return StreamingJoinWriter(self.spark, self.spec, self.rows, self.lanes, self.after)

    def explained(self, *, extended: bool = False) -> str:
        return describe(self.spec, self.lanes or parallelism(self.spark), extended=extended)

    def remaining(self, checkpointLocation: str, storeLocation: str | None = None) -> DataFrame:
        """The output that would follow if both sources ended now.

        Parameters
        ----------
        checkpointLocation, storeLocation : str
            Of the query, which should not be running; they are only read.

        Returns
        -------
        DataFrame
            A batch DataFrame, to be read before the query goes on.

        Raises
        ------
        UsageError, FileError
            As for ``start()``.
        """
        place = QueryPlace(checkpointLocation, storeLocation)
        store = place.store
        check_folder(place, self.spec)
        latest = store.latest() or BatchRecord()
        ended = dict.fromkeys(latest.after, FOREVER)
        last = latest.following(
            {},
            {},
            after=ended,
            old=latest.blocks(),
            waiting=latest.waiting,
            closed=(latest.closed[1], FOREVER),
        )
        shards = shards_of(last, self.lanes or parallelism(self.spark))
        rows, waiting = output_of(self.spark, self.spec, store, last, shards), self.spec.waiting
        if waiting is not None:
            earlier = complete_rows(self.spark, self.spec, waiting, store, last)
            rows = earlier.union(waiting.of_joined(rows))
        return self.after(rows)
