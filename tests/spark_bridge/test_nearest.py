"""JOIN ... NEAREST of DataFrames, beside penstock.sql and, where it has the clause, Spark."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import penstock

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import pyspark

from penstock.errors import PenstockError, QueryError
from penstock.host.relation import RelationOptions, build
from penstock.query import compile_query
from penstock.spark_bridge import explain, sql
from penstock.spark_bridge.batch import decide
from penstock.spark_bridge.inputs import needs_places
from penstock.uses import UnusedError
from tests.penstock.test_nearest import table

#: Clauses behind ``l`` and whether Spark has them: it has no ON.
CLAUSES = (
    "JOIN m EXACT NEAREST 3 BY DISTANCE abs(l.x - m.x) + abs(l.y - m.y)",
    "LEFT JOIN m APPROX NEAREST BY SIMILARITY l.x * m.i",
    "LEFT JOIN m EXACT NEAREST 2 BY DISTANCE abs(l.t - m.t) ON l.g = m.g AND m.i <= l.i",
    "JOIN m EXACT NEAREST 100 BY DISTANCE m.z ON l.s = m.s WHERE m.t > 5",
)


@pytest.fixture(scope="module")
def tables(spark):
    """Tables with NULL, NaN and equal distances; l has empty partitions."""
    rng = np.random.default_rng(2)
    rows = {"l": table(rng, 50, grid=2), "m": table(rng, 40, grid=2)}
    left = spark.createDataFrame(rows["l"]).repartition(7, "g").cache()
    return rows, {"l": left, "m": spark.createDataFrame(rows["m"]).cache()}


def rows_of(rows: pa.Table) -> Counter:
    # NaN is no equal of itself.
    return Counter(zip(*(map(repr, column.to_pylist()) for column in rows.columns), strict=True))


@pytest.mark.parametrize("lanes", [None, 3])
def test_rows_and_ties_are_those_of_penstock(spark, tables, lanes, monkeypatch):
    """Of equal distances the rows that come first in the DataFrame."""
    rows, frames = tables
    if lanes is None:  # as many as tasks run
        monkeypatch.setattr(decide, "small", lambda request, inputs: None)
    schemas = {name: one.schema for name, one in rows.items()}
    shown = explain(spark, f"SELECT l.id FROM l {CLAUSES[0]}", frames, lanes=lanes)
    for topic in ("lanes  ", "nearest      3 with the least", "window       none"):
        assert topic in shown
    query = compile_query(f"SELECT l.id FROM l {CLAUSES[0]}", schemas, takes_nearest=True)
    assert needs_places(query)  # here Spark keeps the order of rows in any case
    for clause in CLAUSES if lanes else CLAUSES[1:3]:
        text = f"SELECT l.id AS a, m.id AS b, m.x FROM l {clause}"
        found = sql(spark, text, frames, lanes=lanes).toArrow()
        assert rows_of(found) == rows_of(penstock.sql(text, rows)), text


def test_distances_are_sparks(spark, tables):
    """Spark leaves open which rows of equal distances it takes."""
    if pyspark.__version__ < "4.3":
        pytest.skip("Spark has the clause from 4.3 on")
    for name, frame in tables[1].items():
        frame.createOrReplaceTempView(name)
    for clause, value in zip(
        CLAUSES[:2], ("abs(l.x - m.x) + abs(l.y - m.y)", "l.x * m.i"), strict=True
    ):
        text = f"SELECT l.id AS a, {value} AS d FROM l {clause}"
        assert rows_of(sql(spark, text, tables[1]).toArrow()) == rows_of(spark.sql(text).toArrow())


def test_empty_tables_and_a_table_beside_itself(spark, tables):
    rows, frames = tables
    text = f"SELECT l.id AS a, m.id AS b FROM l {CLAUSES[1]}"
    for empty in ("l", "m"):
        found = sql(spark, text, {**frames, empty: frames[empty].where("id < 0")}).toArrow()
        wanted = penstock.sql(text, {**rows, empty: rows[empty].slice(0, 0)})
        assert rows_of(found) == rows_of(wanted)
    text = (
        "SELECT l.id AS a, k.id AS b FROM m l JOIN m k EXACT NEAREST 2 BY DISTANCE abs(l.t - k.t)"
    )
    own = sql(spark, text, {"m": frames["m"]}, lanes=2).toArrow()
    assert rows_of(own) == rows_of(penstock.sql(text, {"m": rows["m"]}))
    text = (
        "SELECT l.g, count(m.id) AS n FROM l LEFT JOIN LATERAL (SELECT m.id FROM m WHERE m.g = l.g "
    )
    text += "ORDER BY abs(m.t - l.t) LIMIT 2) m ON TRUE GROUP BY l.g"
    assert rows_of(sql(spark, text, frames).toArrow()) == rows_of(penstock.sql(text, rows))


def test_refusals(spark, tables, tmp_path):
    rows, frames = tables
    text = f"SELECT l.id AS a, m.id AS b FROM l {CLAUSES[0]}"
    for option in ({"ordered": True}, {"device": "cpu"}, {"time": {"l": "t", "m": "t"}}):
        with pytest.raises(UnusedError, match=next(iter(option))):
            sql(spark, text, frames, **option)
    with pytest.raises(PenstockError, match="each left row is compared with all right rows"):
        sql(spark, text, frames, partitioning="keys")
    stored = rows["m"].select(["id", "x", "y"]).drop_null()
    build(stored, str(tmp_path / "m.rel"), RelationOptions(key=("id",))).close()
    relation = penstock.relation(str(tmp_path / "m.rel"))
    with pytest.raises(QueryError):
        sql(spark, text, {**frames, "m": relation})
    stream = spark.readStream.format("rate").load().selectExpr("value id", "1D x", "2D y")
    for streams in ({"l": stream}, {"l": stream, "m": stream}):
        with pytest.raises(QueryError):
            sql(spark, text, {**frames, **streams})
