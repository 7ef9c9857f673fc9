"""A join of streaming DataFrames: what is decided before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from penstock.errors import UsageError
from penstock.host.completeness.admission import FOREVER
from penstock.host.completeness.source import Source, Span, check_names
from penstock.host.postprocess.opening import open_delivery
from penstock.host.pruning.sizes import Pruning, pruning_sizes
from penstock.host.stepwise import require_stepwise
from penstock.query.compiler import Rows, Within
from penstock.query.plan import JoinQuery, Side
from penstock.spark_bridge.metrics.listener import watch
from penstock.spark_bridge.request import Request
from penstock.spark_bridge.streaming.commit import Commit
from penstock.spark_bridge.streaming.explain import explained
from penstock.spark_bridge.streaming.identity import check_folder
from penstock.spark_bridge.streaming.microbatch import MicroBatch
from penstock.spark_bridge.streaming.place import Place
from penstock.spark_bridge.streaming.spec import JoinSpec
from penstock.spark_bridge.streaming.state import with_state
from penstock.spark_bridge.streaming.union import slots_of, union_of
from penstock.spark_bridge.streaming.writer import StreamingJoinWriter, parallelism
from penstock.spark_bridge.types import output_schema, spark_schema

DESIGNS = ("files", "state")

#: Metadata in which Spark keeps the delay that withWatermark was given.
_DELAY_MS = "spark.watermarkDelayMs"


def stream(
    spark: SparkSession,
    query: str,
    tables: Mapping[str, DataFrame | str],
    *,
    time: Mapping[str, str] | None = None,
    rows: Rows | None = None,
    within: Within | None = None,
    params: Mapping[str, Any] | None = None,
    scale: Mapping[str, int] | None = None,
    unique: Mapping[str, str | Sequence[str]] | None = None,
    disorder: Span | Mapping[str, Span] | None = None,
    idle: timedelta | None = None,
    device: str | None = None,
    device_options: Mapping[str, Any] | None = None,
    pruning: bool | Pruning = True,
    lanes: int | None = None,
    design: str = "files",
    ordered: bool = False,
) -> StreamingJoin | DataFrame:
    """Join two streaming DataFrames over a time or ROWS window, on devices.

    Parameters
    ----------
    spark : SparkSession
    query : str
        ``SELECT ... FROM a JOIN b ON ...`` in Spark's SQL; see docs/sql.md.
    tables : mapping of name to streaming DataFrame or str
        A string names a table or temporary view of the session.
    time, rows, within, params, scale
        As for :func:`penstock.sql`.
    unique : mapping of alias to column or columns, optional
        Columns of which no two rows have the same values, for GROUP BY; see docs/streams.md.
    disorder : int, timedelta or mapping of alias to either, optional
        How far a row's time may lie below the largest time of earlier micro-batches of its source;
        later rows are late. By default what ``withWatermark`` says. An integer is in the unit of
        the time column.
    idle : timedelta, optional
        A source that sends nothing for so long, while the other one does, no longer holds back
        what waits for it; rows that it sends later are judged by what the other one had promised.
        By default a silent source is waited for. In the files design.
    device : str, optional
        Name of a device that the executors have; see docs/spark.md.
    device_options : mapping, optional
        Arguments of the device's class.
    pruning : bool or Pruning
        As for :func:`penstock.sql`.
    lanes : int, optional
        Most tasks of a micro-batch's output; by default as many as run at a time. It may change
        from start to start. In the state design: the number of lanes, by default 1, and it may not.
    design : str
        "files", or "state": the window in Spark's own state store; see docs/spark-streaming.md.
    ordered : bool
        Sort the rows of each micro-batch, as :func:`penstock.spark_bridge.sql` does, by time alone.

    Returns
    -------
    StreamingJoin or DataFrame
        With ``writeStream``. The state design gives a streaming DataFrame.

    Raises
    ------
    QueryError, SchemaError, UsageError, DeviceError

    Examples
    --------
    >>> joined = stream(
    ...     spark,
    ...     "SELECT r.id, c.cab FROM rides r JOIN cabs c ON abs(r.x - c.x) < 5 "
    ...     "AND c.t BETWEEN r.t - INTERVAL 5 SECONDS AND r.t + INTERVAL 5 SECONDS",
    ...     {"rides": rides.withWatermark("t", "1 minute"),
    ...      "cabs": cabs.withWatermark("t", "1 minute")},
    ... )  # doctest: +SKIP
    >>> running = (
    ...     joined.writeStream.format("parquet").option("checkpointLocation", "/shared/join")
    ...     .option("path", "/shared/near").start()
    ... )  # doctest: +SKIP
    """
    if design not in DESIGNS:
        raise UsageError(f"design must be one of {', '.join(DESIGNS)}, not {design!r}")
    if idle is not None and idle <= timedelta(0):
        raise UsageError(f"idle must be a time above 0, not {idle}")
    if idle is not None and design == "state":
        raise UsageError(
            "idle is for the files design: lanes that keep state of their own would not agree on "
            "the clock; leave it out, or give design='files'"
        )
    options = {
        "time": time,
        "rows": rows,
        "within": within,
        "params": params,
        "scale": scale,
        "unique": unique,
    }
    if ordered and design == "state":
        raise UsageError(
            "the state design gives a streaming DataFrame, which Spark does not sort; leave "
            "ordered out and sort inside foreachBatch, or take the files design"
        )
    request = Request.of(spark, query, tables, options, device, device_options, ordered=ordered)
    made = planned(request, disorder=disorder, idle=idle, pruning=pruning, lanes=lanes)
    return made if design == "files" else with_state(spark, made.spec, made.rows, lanes or 1)


def planned(
    request: Request,
    *,
    disorder: Span | Mapping[str, Span] | None = None,
    idle: timedelta | None = None,
    pruning: bool | Pruning = True,
    lanes: int | None = None,
) -> StreamingJoin:
    """A request over streams, decided; arguments and errors as for :func:`stream`."""
    if lanes is not None and lanes < 1:
        raise UsageError(f"lanes must be at least 1, not {lanes!r}")
    compiled, frames, schemas = request.query, request.frames, request.schemas
    for side in compiled.sides:
        if not frames[side.table].isStreaming:
            raise UsageError(
                f"table {side.table} is no stream; join a stream with a stream (readStream), or "
                "two batch DataFrames with penstock.spark_bridge.sql"
            )
    require_stepwise(compiled)
    inputs = {side.side: schemas[side.table] for side in compiled.sides}
    spec = JoinSpec(
        request.compiled,
        _disorder(compiled, frames, disorder),
        slots_of(compiled, frames),
        output_schema(open_delivery(compiled, inputs).schema),
        request.device,
        pruning_sizes(pruning),
        request.conf.output_rows,
        request.conf.resident_bytes if request.conf.resident else None,
        None if idle is None else idle.total_seconds(),
    )
    if request.conf.metrics_port is not None:
        watch(request.spark)
    return StreamingJoin(request.spark, spec, union_of(compiled, frames, spec), lanes)


class StreamingJoin:
    """A join that can be started; from :func:`stream`.

    Attributes
    ----------
    schema : pyspark.sql.types.StructType
        Of the output.
    """

    def __init__(
        self, spark: SparkSession, spec: JoinSpec, rows: DataFrame, lanes: int | None
    ) -> None:
        self.spark, self.spec, self.rows, self.lanes = spark, spec, rows, lanes

    @property
    def schema(self) -> spark_types.StructType:
        ordering, output = self.spec.compiled.ordering, self.spec.output
        hidden = [] if ordering is None else ordering.hidden(self.spec.query())
        return spark_schema(pa.schema([f for f in output if f.name not in hidden]))

    @property
    def writeStream(self) -> StreamingJoinWriter:
        """Where the output goes and how the query runs, as with a DataFrame."""
        return StreamingJoinWriter(self.spark, self.spec, self.rows, self.lanes)

    def explain(self) -> str:
        """What the query will do: window, lateness, lanes, form of the predicate, device."""
        return explained(self.spec, self.lanes or parallelism(self.spark))

    def rest(self, checkpointLocation: str, storeLocation: str | None = None) -> DataFrame:
        """What would leave if both sources ended now: rows that wait for a watermark.

        Parameters
        ----------
        checkpointLocation, storeLocation : str
            Of the query, which should not be running; nothing in them changes.

        Returns
        -------
        DataFrame
            A batch DataFrame, to be read before the query goes on.

        Raises
        ------
        UsageError, FileError
            As for ``start()``.
        """
        place = Place(checkpointLocation, storeLocation)
        store = place.store
        check_folder(place, self.spec)
        latest = store.latest() or Commit()
        last = Commit(
            batch=latest.batch + 1,
            before=latest.after,
            after=dict.fromkeys(latest.after, FOREVER),
            old=latest.blocks(),
        )
        lanes = self.lanes or parallelism(self.spark)
        return MicroBatch(self.spec, store, lanes, _nowhere).output(self.spark, last)


def _nowhere(rows: DataFrame, batch: int) -> None:
    """Takes no output."""


def _disorder(
    query: JoinQuery, tables: Mapping[str, DataFrame], given: Span | Mapping[str, Span] | None
) -> dict[str, int]:
    """Per side, in the window's unit.

    Raises
    ------
    UsageError
        Nothing says how far out of order a source may be.
    """
    check_names(given, query.sides)
    found = {}
    for side in query.sides:
        span: Span | None = None
        if isinstance(given, Mapping):
            names = {name.lower(): own for name, own in given.items()}
            span = names.get(side.alias.lower(), names.get(side.table.lower()))
        elif given is not None:
            span = given
        if span is None:
            span = _delay(side, tables[side.table])
        found[side.side] = Source(side, {side.alias: span}).disorder
    return found


def _delay(side: Side, table: DataFrame) -> timedelta:
    """What the watermark on a side's time says."""
    column = Source(side, 0).column
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
