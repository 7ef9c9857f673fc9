"""Event times as Spark stores them: the integers behind dates, timestamps and integer columns."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as spark

from penstock.expr.node import Op
from penstock.plan.linear import linear
from penstock.plan.query import Side

_DAY_US = 86_400_000_000
_MINUTE_US = 60_000_000


@dataclass(frozen=True)
class TickClock:
    """A time as ``factor * ticks + offset``; ticks are the integers that a column stores."""

    column: str
    factor: int
    offset: int

    @staticmethod
    def from_side(side: Side) -> TickClock | None:
        """The clock of a side; None if its time has another form."""
        if side.time is None:
            return None
        form = linear(side.time)
        if len(form.terms) != 1:
            return None
        ((leaf, factor),) = form.terms
        if leaf.op is not Op.COLUMN or factor <= 0:
            return None
        return TickClock(leaf.attr[1], factor, form.constant)

    def time(self, ticks: int) -> int:
        return self.factor * ticks + self.offset

    def reaches(self, time: int) -> int:
        """Least ticks whose time is at or after ``time``."""
        return -((self.offset - time) // self.factor)


def ticks(column: str, dtype: spark.DataType) -> str:
    """SQL of the integer that Arrow stores for an integer, date or timestamp."""
    if isinstance(dtype, spark.DateType):
        return f"CAST(unix_date({column}) AS BIGINT)"
    if isinstance(dtype, spark.TimestampType):
        return f"unix_micros({column})"
    if isinstance(dtype, spark.TimestampNTZType):
        # A cast to TIMESTAMP would read it in the session's zone, in which some hours do not exist.
        days = f"CAST(unix_date(CAST({column} AS DATE)) AS BIGINT)"
        minutes = f"CAST(hour({column}) * 60 + minute({column}) AS BIGINT)"
        micros = f"CAST(extract(SECOND FROM {column}) * 1000000 AS BIGINT)"
        return f"{days} * {_DAY_US} + {minutes} * {_MINUTE_US} + {micros}"
    return f"CAST({column} AS BIGINT)"
