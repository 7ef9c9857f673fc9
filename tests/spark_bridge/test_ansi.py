"""ANSI mode: an error where Spark raises one, by the same name, and nowhere else."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal as D

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.spark_bridge import sql
from tests.spark_bridge.kit.settings import setting

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "t": [datetime(2024, 1, 1) + timedelta(seconds=k) for k in range(4)],
        "x": pa.array([7, 200, None, 3], pa.int32()),
        "y": pa.array([0, 5, 0, None], pa.int32()),
        "big": pa.array([2**31 - 1, -(2**31), 4, 5], pa.int32()),
        "long": pa.array([2**62, -(2**63), 1, 2]),
        "d": [0.0, 1.5, None, -2.0],
        "p": pa.array([D("1.50"), D("-2"), None, D("0")], pa.decimal128(10, 2)),
        "w": pa.array([D(10) ** 37, D(5), D(7), D(-1)], pa.decimal128(38, 0)),
    }
)
FROM = "FROM a JOIN b ON a.id = b.id AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t"
SELECTED = [
    "a.x / b.y",
    "a.x % b.y",
    "a.x DIV b.y",
    "a.d / b.d",
    "CASE WHEN b.y <> 0 THEN a.x / b.y END",
    "CASE WHEN b.y = 0 THEN -1D ELSE a.x / b.y END",
    "CASE WHEN a.x / b.y > 1 THEN 1 ELSE 0 END",
    "if(b.y = 0 OR a.x / b.y > 1, 1, 0)",
    "if(a.x / b.y > 1 OR b.y = 0, 1, 0)",
    "coalesce(b.y, a.x / b.y)",
    "coalesce(a.x / b.y, 1)",
    "a.x / nullif(b.y, 0)",
    "NULL / b.y",
    "1 / 0",
    "a.big + b.x",
    "a.big + 1L",
    "CAST(a.big AS BIGINT) + b.x",
    "a.long + b.long",
    "-a.big",
    "abs(a.long)",
    "a.big - b.x",
    "CASE WHEN a.id > 2 THEN a.big + b.x END",
    *("a.p / b.p", "a.p % b.p", "a.x / nullif(b.p, 0)", "a.w * b.w", "a.w * nullif(b.p, 1.5)"),
    *("a.w + b.w", "a.w / nullif(b.p, 0)", "CASE WHEN b.id > 1 THEN a.w * b.w END"),
]
FILTERS = ["a.x / a.y > 1", "a.y <> 0 AND a.x / a.y > 1", "a.y = 0 OR a.x / a.y > 1"]
CONDITIONS = ["a.x / b.y > 1", "b.y <> 0 AND a.x / b.y > 1", "a.x % nullif(b.y, 0) < 3"]
QUERIES = [f"SELECT a.id, {text} AS c {FROM}" for text in SELECTED]
QUERIES += [f"SELECT a.id {FROM} WHERE {text}" for text in FILTERS]
QUERIES += [f"SELECT a.id {FROM} AND {text}" for text in CONDITIONS]
#: Asked of the bridge, too.
BRIDGED = ("a.x % b.y", "a.big + b.x", "a.x / b.y > 1")


def answer(ask) -> object:
    """The rows, or Spark's name of the error."""
    try:
        return sorted(ask())
    except Exception as error:  # Spark's own, or that of a task
        names = re.findall(r"\[([A-Z_]{9,})(?:\.\w+)?\] ", str(error))
        return names[-1] if names else f"another error: {error}"


@pytest.mark.parametrize(
    ("ansi", "step"), [(True, 3), (False, 5), pytest.param(True, 1, marks=pytest.mark.slow)]
)
def test_errors(spark, ansi, step):
    wrong = {}
    with (
        setting(spark, "spark.sql.ansi.enabled", str(ansi).lower()),
        setting(spark, "spark.sql.session.timeZone", "UTC"),
    ):
        frame = spark.createDataFrame(ROWS).coalesce(1)  # no shuffle: it is asked often
        tables, frames = {"a": ROWS, "b": ROWS}, {"a": frame, "b": frame}
        for name in frames:
            frame.createOrReplaceTempView(name)
        for text in QUERIES[::step]:

            def of_tables(text=text):
                found = penstock.sql(text, tables, time={"a": "t", "b": "t"}, ansi=ansi)
                return [tuple(row.values()) for row in found.to_pylist()]

            theirs = answer(lambda text=text: map(tuple, spark.sql(text).collect()))
            ours = [answer(of_tables), answer(lambda text=text: of_tables(f"{text} ORDER BY 1"))]
            if text.partition(" AS c")[0].endswith(BRIDGED):
                ours.append(
                    answer(lambda text=text: map(tuple, sql(spark, text, frames).collect()))
                )
            wraps = not ansi and any(theirs != one for one in ours) and _overflows(text)
            if not wraps and any(one != theirs for one in ours):
                wrong[text] = theirs, ours
    assert not wrong


def _overflows(text: str) -> bool:
    """Whether Spark wraps around, where ours is exact."""
    return "long" in text or "big" in text
