"""Settings of a Spark session that its queries depend on: time zone, ANSI mode, tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from penstock.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark's setting of it.
KEY = "spark.sql.session.timeZone"
_ANSI = "spark.sql.ansi.enabled"
_TYPE = "spark.sql.timestampType"

#: Rows from which on Spark cuts a range into one partition per task slot.
_MANY = 1 << 20


class SessionOptions(TypedDict):
    """Options of :class:`~penstock.query.options.QueryOptions`."""

    time_zone: str
    ansi: bool


def of_session(spark: SparkSession, text: str) -> SessionOptions:
    """The options of a query that are the session's at present.

    Parameters
    ----------
    spark : SparkSession
    text : str
        The query.

    Raises
    ------
    UsageError
        The query names TIMESTAMP, and the session says that it means TIMESTAMP_NTZ.
    """
    if spark.conf.get(_TYPE, "TIMESTAMP_LTZ") != "TIMESTAMP_LTZ" and _names_timestamp(text):
        raise UsageError(
            f"{_TYPE} gives TIMESTAMP another meaning than this query's; write TIMESTAMP_NTZ or "
            "TIMESTAMP_LTZ in its literals and casts"
        )
    zone = spark.conf.get(KEY)
    assert zone is not None  # it has a default
    return {"time_zone": zone, "ansi": spark.conf.get(_ANSI) == "true"}


def shuffle_partitions(spark: SparkSession) -> int:
    """How many tasks Spark sends the rows of a shuffle to."""
    return int(spark.conf.get("spark.sql.shuffle.partitions", None) or "200")


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at a time, found in a way that also works with Spark Connect."""
    from pyspark.sql import functions as F

    number = F.spark_partition_id()
    rows = spark.range(_MANY).select(number.alias("p")).agg(F.max("p").alias("p")).collect()
    return int(rows[0]["p"]) + 1


def _names_timestamp(text: str) -> bool:
    from sqlglot import exp

    from penstock.query.parse import parse

    ambiguous = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ)
    return any(dtype.this in ambiguous for dtype in parse(text).find_all(exp.DataType))
