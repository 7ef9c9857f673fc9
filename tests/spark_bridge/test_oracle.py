"""Random joins in SQL through Spark, against DuckDB on the same SQL."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import QueryError
from penstock.query import compile_query
from penstock.spark_bridge import sql
from tests.kit.effort import effort
from tests.penstock.kit.queries import SCHEMA, Grammar, Join, Oracle, delivered
from tests.spark_bridge.kit.settings import setting

#: Spark has no unsigned integers, and counts microseconds.
CARRIED = {"u": pa.int16(), "w": pa.decimal128(20, 0), "ts": pa.timestamp("us")}
SPARK = pa.schema([pa.field(f.name, CARRIED.get(f.name, f.type), f.nullable) for f in SCHEMA])


def joined(spark, join: Join, lanes: int, partitioning: str) -> Counter:
    frames = {name: spark.createDataFrame(own.cast(SPARK)) for name, own in join.tables.items()}
    how = {"lanes": lanes, "partitioning": partitioning}
    # In ANSI mode, products beyond Spark's types would be errors; DuckDB's are exact.
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        return delivered(sql(spark, join.sql, frames, **join.options, **how).toArrow())


def check(spark, examples: int) -> int:
    """Compare so many random joins; how many had rows."""
    oracle, told = Oracle(), []

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 1 << 40), st.integers(1, 3), st.sampled_from(["time", "grid"]))
    def one(seed: int, lanes: int, partitioning: str) -> None:
        join = Grammar(seed).join(most=30)
        try:
            compile_query(join.sql, dict.fromkeys(join.tables, SPARK), **join.options)
        except QueryError:
            return  # what is documented not to have a form
        wanted = oracle(join)
        cut = "auto" if join.rows else partitioning
        assert joined(spark, join, lanes, cut) == wanted, join
        told.append(wanted.total() > 0)

    one()
    return sum(told)


def test_random_joins(spark):
    check(spark, effort(4, 2))


@pytest.mark.slow
def test_many_random_joins(spark):
    assert check(spark, 100) > 30
