"""Queries over real data with known exact results; see PENSTOCK_DATA in docs/spark/tables.md."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge import sql
from tests.spark_bridge.kit.answers import (
    ROWS,
    TIMED,
    Answer,
    needs_data,
    options_of,
    path_of,
    text_of,
)

pytestmark = needs_data


def check(spark, name: str, lanes: int, partitioning: str = "auto") -> None:
    tables = {alias: spark.read.parquet(str(path_of(name, alias))) for alias in "rs"}
    how = {"lanes": lanes, "partitioning": partitioning}
    answer = Answer()
    answer(sql(spark, text_of(name), tables, **options_of(name), **how), 0)
    answer.check(name)


@pytest.mark.parametrize(("name", "lanes", "partitioning"), [
    pytest.param("Z1", 5, "time", marks=pytest.mark.slow),
    ("S2", 2, "grid"),
    pytest.param("U3", 5, "auto", marks=pytest.mark.slow),
    pytest.param("U2", 5, "keys", marks=pytest.mark.slow),
])  # fmt: skip
def test_known_answer(spark, name, lanes, partitioning):
    check(spark, name, lanes, partitioning)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 2, 5])
@pytest.mark.parametrize("name", [*TIMED, *ROWS])
def test_every_known_answer(spark, name, lanes):
    check(spark, name, lanes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["B1", "N2", "G3"])
def test_known_answers_of_a_grid(spark, name):
    check(spark, name, 5, "grid")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lanes", [1, 2, 5, 8])
@pytest.mark.parametrize("name", ["B1", "Z1", "Z2", "G1", "G3", "S2", "N2", "U1", "U2", "A1"])
def test_known_answers_by_keys(spark, name, lanes):
    check(spark, name, lanes, "keys")
