"""Joins of DataFrames without a window: rows beside Spark's own, and who runs them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F

from penstock.around import parts
from penstock.spark_bridge import explain, sql
from penstock.spark_bridge.batch import decide
from penstock.spark_bridge.batch.equal_keys import pairs_of_equal_keys
from tests.penstock.test_equal_and_other import KINDS, table

CASES = (
    ("a.k = b.j", "abs(a.f - b.f) < 0.5"),
    ("a.t = b.t AND a.k = b.k", "a.lo <= b.hi AND b.lo <= a.hi"),
    ("b.f = a.f", "abs(a.lo - b.lo) + abs(a.hi - b.hi) < 9"),
    ("TRUE", "abs(a.lo - b.lo) < 2"),
)


@pytest.fixture(scope="module")
def frames(spark):
    """Tables with NULL, NaN and few values; b has empty partitions, and a is in one."""
    rng = np.random.default_rng(3)
    a, b = (spark.createDataFrame(table(rng, rows)) for rows in (70, 50))
    frames = {"a": a.coalesce(1).cache(), "b": b.repartition(9, "k").cache()}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return frames


def rows_of(frame) -> Counter:
    return Counter(map(tuple, frame.collect()))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_sparks_own(spark, frames, kind, monkeypatch):
    """Penstock runs them by lanes, however few rows there are."""
    monkeypatch.setattr(parts, "MANY_PAIRS", (-1, -1))
    monkeypatch.setattr(decide, "small", lambda request, inputs: None)
    output = "a.id AS x" if kind.endswith(("SEMI JOIN", "ANTI JOIN")) else "a.id AS x, b.id AS y"
    equal, other = CASES[KINDS.index(kind) % len(CASES)]
    text = f"SELECT {output} FROM a {kind} b ON {equal} AND {other}"
    joined = sql(spark, text, frames)
    assert "penstock" in joined._jdf.queryExecution().toString()
    assert rows_of(joined) == rows_of(spark.sql(text))


def test_many_pairs_of_equal_keys_are_joined_by_penstock(spark, frames):
    """Half of all rows have one key: three pairs of a million test more than a million."""
    a = spark.range(6000).selectExpr("CAST(id AS INT) AS n", "IF(id % 2 = 0, 0, id) AS k")
    b = spark.range(2000).selectExpr("id AS n", "CAST(IF(id % 2 = 0, 0, -id) AS INT) AS K")
    on_k = [(F.col("k"), F.col("k"))]
    equals = pairs_of_equal_keys(a, b, on_k)
    assert equals is not None
    assert equals.rows == 8000
    assert equals.pairs == pytest.approx(3e6, rel=0.1)
    text = "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND abs(a.n - b.n) < 3"
    shown = explain(spark, text, {"a": a, "b": b})
    assert shown.startswith("a join b     Penstock: SELECT")
    keyed = explain(spark, text.replace("a.k", "a.k + 0") + " AND a.n >= 0", {"a": a, "b": b})
    assert "Penstock: SELECT" in keyed
    few = explain(spark, text, {"a": a.where("k > 0"), "b": b})
    assert few.startswith("rows of a and b Spark: SELECT")
    assert pairs_of_equal_keys(a, b.selectExpr("CAST(k AS STRING) AS k"), on_k) is None
    empty = pairs_of_equal_keys(a.where("n < 0"), b, on_k)
    assert empty == (0, 2000)
