"""``penstock_replay``: a data source of Spark that plays files as a stream, each time the same.

An offset is the number of rows that have arrived, not a time; the options alone determine which
rows these are. So a batch that Spark repeats after a crash has the same rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyspark.sql.datasource as spark_api
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type

from penstock.errors import UsageError
from penstock.spark_bridge.sources.source_options import Options
from penstock.spark_bridge.text_values import number, whole
from penstock.types import UNIT_NS

from .arrival import NO_TIME
from .limits import TOLD, ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from .replay_order import ReplayPlan, spark_types

NAME = "penstock_replay"

#: Default number of tasks of a micro-batch.
_PARTITIONS = 2

_POSITIVE = number("a number above 0", lambda value: value > 0)

#: More rows than any stream has: the row limit of a replay that is cut by time only.
_MANY = (1 << 62) - 1


@dataclass(frozen=True)
class ArrivalRate:
    """How fast rows come.

    Parameters
    ----------
    rows_per_second : float or None
    ticks_per_second : float or None
        Event time per second, in the time's unit.
    rows_per_batch, ticks_per_batch : int or None
        Limits of a micro-batch.
    """

    rows_per_second: float | None = None
    ticks_per_second: float | None = None
    rows_per_batch: int | None = None
    ticks_per_batch: int | None = None

    @staticmethod
    def from_options(options: Options, plan: ReplayPlan) -> ArrivalRate:
        """
        Raises
        ------
        UsageError
        """
        speed = options.read("speed", _POSITIVE, None)
        span = options.ticks("timePerBatch", plan.unit)
        for key in ("speed", "timePerBatch"):
            if options.text(key) and plan.time is None:
                raise UsageError(f"{key} is of times: name the column with the option time")
        if speed and not plan.unit:
            raise UsageError(
                "speed is how many seconds of event time go by in one, and the time is a plain "
                f"integer; declare its unit: time={plan.time}:s (ms, us)"
            )
        pace = ArrivalRate(
            options.read("rowsPerSecond", _POSITIVE, None),
            speed * 1e9 / UNIT_NS[plan.unit] if speed else None,
            options.read("rowsPerBatch", whole(1), None),
            span or None,
        )
        if pace.rows_per_second and pace.ticks_per_second:
            raise UsageError("give rowsPerSecond or speed, not both")
        return pace

    @property
    def is_limited(self) -> bool:
        return self != ArrivalRate()


class ReplaySource(spark_api.DataSource):
    """The data source; docs/spark/sources.md has its options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> spark.StructType:
        plan = ReplayPlan.from_options(self._options)
        return from_arrow_schema(spark_types(plan.files.schema), prefer_timestamp_ntz=True)

    def reader(self, schema: spark.StructType) -> ReplayReader:
        return ReplayReader(self._options, schema)

    def streamReader(self, schema: spark.StructType) -> ReplayStreamReader:
        return ReplayStreamReader(self._options, schema)

    @property
    def _options(self) -> Options:
        return Options(self.options, NAME)


class _Rows:
    """Base of both readers: the rows, and how a task reads some."""

    def __init__(self, options: Options, schema: spark.StructType) -> None:
        self.plan = ReplayPlan.from_options(options)
        self.parts = options.read("partitions", whole(1), _PARTITIONS)
        self.schema = pa.schema([pa.field(f.name, _arrow_type(f.dataType)) for f in schema])

    def pieces(self, begin: int, end: int) -> list[spark_api.InputPartition]:
        pieces = self.plan.pieces(begin, end, self.parts)
        return [spark_api.InputPartition(piece) for piece in pieces]

    def read(self, partition: spark_api.InputPartition) -> Iterator[pa.RecordBatch]:
        return self.plan.read(partition.value, self.schema)


def _arrow_type(dtype: spark.DataType) -> pa.DataType:
    # Spark's own function gives another type of instants in some versions.
    return pa.timestamp("us", "UTC") if dtype == spark.TimestampType() else to_arrow_type(dtype)


class ReplayReader(_Rows, spark_api.DataSourceReader):
    """All rows, as a batch DataFrame; in the order of their arrival within a partition."""

    def partitions(self) -> list[spark_api.InputPartition]:
        return self.pieces(0, self.plan.files.rows)


class ReplayStreamReader(_Rows, spark_api.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The rows as they arrive."""

    def __init__(self, options: Options, schema: spark.StructType) -> None:
        super().__init__(options, schema)
        self.pace = ArrivalRate.from_options(options, self.plan)
        if self.pace.is_limited and not TOLD:
            raise UsageError(
                f"{NAME} can be paced (rowsPerSecond, speed, rowsPerBatch, timePerBatch) from "
                "Spark 4.2 on, which tells a source where it is; leave these options out"
            )
        self._is_all_there = False
        self._began: tuple[float, int] | None = None

    # -- offsets ----------------------------------------------------------------------------------

    def initialOffset(self) -> dict:
        return self._offset(0, self._grid(self._moment(0)))

    def latestOffset(self, start: Any = None, limit: ReadLimit | None = None) -> dict:
        rows = self.plan.files.rows
        if start is None:  # Spark 4.1
            return self._offset(rows, 0)
        first = self._row(start)
        if isinstance(limit, ReadAllAvailable):
            return self._offset(rows, start["moment"])
        last = rows if self._is_all_there else self._arrived(first)
        if self.pace.rows_per_batch:
            last = min(last, first + self.pace.rows_per_batch)
        moment, span = start["moment"], self.pace.ticks_per_batch
        if span and first < rows:
            upto = self.plan.arrivals.until(moment + span - 1)
            if upto > last:
                # The batch ends early, and the next one goes on in the same span of time.
                return self._offset(max(first, last), moment)
            last, moment = upto, moment + span
        return self._offset(max(first, last), moment)

    def getDefaultReadLimit(self) -> ReadLimit:
        # latestOffset applies the limits; this one asks Spark to call it with them.
        return ReadMaxRows(self.pace.rows_per_batch or _MANY)

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_all_there = True

    def reportLatestOffset(self) -> dict:
        return self._offset(self.plan.files.rows, 0)

    def partitions(self, start: dict, end: dict) -> list[spark_api.InputPartition]:
        return self.pieces(self._row(start), self._row(end))

    def _offset(self, row: int, moment: int) -> dict:
        return {"row": row, "moment": moment, "replay": self.plan.identity}

    def _row(self, offset: dict) -> int:
        """
        Raises
        ------
        UsageError
            The offset is of another replay.
        """
        if offset.get("replay") != self.plan.identity:
            raise UsageError(
                f"the checkpoint is of a replay of other rows, or in another order, than "
                f"{self.plan.path} with these options (time, disorder, seed); restore the files "
                "and options, or start with another checkpointLocation"
            )
        return int(offset["row"])

    # -- time -------------------------------------------------------------------------------------

    def _moment(self, row: int) -> int:
        """Moment of an arrival; 0 if the pace does not depend on time."""
        if not (self.pace.ticks_per_batch or self.pace.ticks_per_second):
            return 0
        arrivals = self.plan.arrivals
        # The first rows may have no time.
        row = max(row, arrivals.until(NO_TIME))
        return int(arrivals.moments[min(row, len(arrivals) - 1)]) if len(arrivals) else 0

    def _grid(self, moment: int) -> int:
        span = self.pace.ticks_per_batch
        return moment // span * span if span else 0

    def _arrived(self, first: int) -> int:
        """Number of rows that have arrived by now; the clock starts with the first call."""
        now, rows = time.monotonic(), self.plan.files.rows
        began, origin = self._began = self._began or (now, first)
        if self.pace.rows_per_second:
            return min(rows, origin + math.floor(self.pace.rows_per_second * (now - began)))
        if self.pace.ticks_per_second:
            passed = math.floor(self.pace.ticks_per_second * (now - began))
            return self.plan.arrivals.until(self._moment(origin) + passed)
        return rows
