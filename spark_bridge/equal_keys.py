"""Estimates how many pairs of two tables have equal keys."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from penstock.around.parts import EqualPairs

#: Rows of the left table that are looked for in the right one: a key of one row in some 1,000 is
#: among them, and Spark looks for as many in the time that it takes for a few.
_SAMPLED = 2_000
#: Reproducible, so that a query runs the same way again.
_SEED = 0


def pairs_of_equal_keys(
    left: DataFrame, right: DataFrame, keys: Sequence[tuple[str, str]]
) -> EqualPairs | None:
    """Count the rows of both tables, and estimate the pairs of equal keys, by one job.

    None if Spark would cast a key to compare it.
    """
    of_left, of_right = zip(*keys, strict=True)
    a, b = _keys_of(left, of_left), _keys_of(right, of_right)
    if not all(map(_are_alike, a.schema, b.schema)):
        return None
    one = F.lit(1)
    sampled = a.orderBy(F.rand(_SEED)).limit(_SAMPLED)
    sample = sampled.groupBy(*a.columns).agg(F.count(one).alias("n"))
    rows = b.join(F.broadcast(sample), a.columns, "left").agg(F.count(one), F.sum("n"))
    counts = a.agg(F.count(one), F.lit(None).cast("bigint")).union(rows).collect()
    pairs = sum(row[1] or 0 for row in counts)
    a_rows, b_rows = (row[0] for row in counts)
    return EqualPairs(pairs * a_rows / max(1, min(a_rows, _SAMPLED)), a_rows + b_rows)


def _keys_of(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """The keys of a table, named alike for both tables."""
    by_position = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    places = [[name.lower() for name in frame.columns].index(one.lower()) for one in names]
    return by_position.select(*(F.col(f"c{at}").alias(f"k{k}") for k, at in enumerate(places)))


def _are_alike(a: spark.StructField, b: spark.StructField) -> bool:
    if isinstance(a.dataType, spark.IntegralType) and isinstance(b.dataType, spark.IntegralType):
        return True
    return a.dataType == b.dataType
