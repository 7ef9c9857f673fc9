"""The join of two DataFrames: what is decided on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import UsageError
from penstock.host.batch import BatchJoin
from penstock.host.device.cpu import CpuDevice
from penstock.query.compiler import Rows, Within, compile_query
from penstock.query.plan import JoinQuery
from penstock.spark_bridge.batch.lane import LaneJoin, named_by_side
from penstock.spark_bridge.batch.slices import Slices, Spread, slices_of
from penstock.spark_bridge.conf import Conf
from penstock.spark_bridge.devices import DeviceChoice
from penstock.spark_bridge.inputs import LANE, Input
from penstock.spark_bridge.types import arrow_schema, check_used, output_schema, spark_schema

#: Rows of the sliced side for which another lane is worth while. A row of the other side may be
#: copied to every lane, and handling it costs as much as some 10,000 tests of the predicate.
ROWS_PER_LANE = 1 << 16


def sql(
    spark: SparkSession,
    query: str,
    tables: Mapping[str, DataFrame | str],
    *,
    time: Mapping[str, str] | None = None,
    rows: Rows | None = None,
    within: Within | None = None,
    params: Mapping[str, Any] | None = None,
    scale: Mapping[str, int] | None = None,
    device: str | None = None,
    device_options: Mapping[str, Any] | None = None,
    lanes: int | None = None,
) -> DataFrame:
    """Join two DataFrames over a time or ROWS window, on devices.

    Everything that can be wrong with the query is found here. Over a time window one small job
    runs at once, to cut the time into lanes; the join itself runs when the result is used.

    Parameters
    ----------
    spark : SparkSession
    query : str
        ``SELECT ... FROM a JOIN b ON ...`` in Spark's SQL; see docs/sql.md.
    tables : mapping of name to DataFrame or str
        A string names a table or temporary view of the session.
    time, rows, within, params, scale
        As for :func:`penstock.sql`.
    device : str, optional
        Name of a device that the executors have; see docs/spark.md for what counts without it.
    device_options : mapping, optional
        Arguments of the device's class. The CPU device gets ``threads=1``, since Spark already
        runs a task per core.
    lanes : int, optional
        Most tasks of the join. By default one for each 65,536 rows of the larger side, but no
        more than ``spark.sql.shuffle.partitions``. ROWS windows have one lane.

    Returns
    -------
    DataFrame
        The joined rows, in no particular order.

    Raises
    ------
    QueryError, SchemaError, UsageError, DeviceError
        On the call. What depends on the data is raised in a task, and Spark's error quotes it.

    Examples
    --------
    >>> joined = sql(
    ...     spark,
    ...     "SELECT r.id, c.cab FROM rides r JOIN cabs c ON abs(r.x - c.x) < 5 "
    ...     "AND c.t BETWEEN r.t - 5 AND r.t + 5",
    ...     {"rides": rides, "cabs": "cabs_view"}, time={"r": "t", "c": "t"},
    ... )  # doctest: +SKIP
    """
    if lanes is not None and lanes < 1:
        raise UsageError(f"lanes must be at least 1, not {lanes!r}")
    choice = DeviceChoice.of(device, device_options, Conf.read(spark))
    frames = {name: _frame(spark, name, table) for name, table in tables.items()}
    spark_schemas = {name: frame.schema for name, frame in frames.items()}
    schemas = {name: arrow_schema(schema) for name, schema in spark_schemas.items()}
    options = {"time": time, "rows": rows, "within": within, "params": params, "scale": scale}
    compiled = compile_query(query, schemas, **options)
    compiled.require_pairs("spark_bridge.sql")
    compiled.require_inner("spark_bridge.sql")
    check_used(compiled, spark_schemas)
    inputs = {s.side: schemas[s.table] for s in compiled.sides}
    output = output_schema(compiled, _joined_schema(compiled, inputs), inputs)

    sides = [Input(compiled, s, frames[s.table]) for s in compiled.sides]
    slots = {slot: dtype for side in sides for slot, dtype in side.slots.items()}
    slices = _slices(spark, sides, lanes)
    left, right = (side.placed(slots, slices) for side in sides)
    shuffled = left.union(right).repartitionById(slices.lanes if slices else 1, LANE).drop(LANE)
    lane_join = LaneJoin(
        query,
        schemas,
        options,
        {side.name: side.slot_of for side in sides},
        output,
        choice,
    )

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return lane_join.run(batches)

    return shuffled.mapInArrow(run, spark_schema(output))


def _frame(spark: SparkSession, name: str, table: DataFrame | str) -> DataFrame:
    if isinstance(table, str):
        if not spark.catalog.tableExists(table):
            raise UsageError(
                f"table {name}: the session has no table or view named {table}; create it, or "
                "give a DataFrame"
            )
        table = spark.table(table)
    if not isinstance(table, DataFrame):
        raise UsageError(
            f"table {name} is a {type(table).__name__}; give a Spark DataFrame, or the name of a "
            "table or view"
        )
    if table.isStreaming:
        raise UsageError(f"table {name} is a stream; sql() joins batch DataFrames")
    return table


def _joined_schema(query: JoinQuery, inputs: Mapping[str, pa.Schema]) -> pa.Schema:
    """Schema of the join's output; what the join refuses is refused here, before any job."""
    empty = {side: schema.empty_table() for side, schema in inputs.items()}
    with CpuDevice(threads=1) as unused:
        return BatchJoin(named_by_side(query), empty, unused).schema


def _slices(spark: SparkSession, sides: Sequence[Input], lanes: int | None) -> Slices | None:
    """Slices of time, from one job over both inputs; None if there is one lane."""
    clocks = {side.name: side.clock for side in sides if side.clock is not None}
    most = lanes or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    if len(clocks) < len(sides) or most == 1:
        return None
    left, right = (side.spread(most) for side in sides)
    spreads = {
        row["side"]: Spread(row["rows"], row["quantiles"]) for row in left.union(right).collect()
    }
    return slices_of(spreads, clocks, most, 1 if lanes else ROWS_PER_LANE)
