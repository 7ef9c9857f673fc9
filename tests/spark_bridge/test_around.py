"""Queries that are more than one join: Penstock's joins, and Spark's own SQL around them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import QueryError
from penstock.spark_bridge import around, explain, sql
from tests.penstock.kit.people import counted, every_query
from tests.spark_bridge.kit.settings import setting
from tests.spark_bridge.kit.streams import stream_of, table, written

OF_SPARK = every_query("spark")
#: There is no join in it, so that nothing of it is Penstock's.
OF_NO_JOIN = {"102"}
#: Those that every run asks: a chain, and ranks.
FEW = {"061", "088"}


def asked(spark, one, tables, answers):
    with (
        setting(spark, "spark.sql.session.timeZone", "UTC"),
        setting(spark, "spark.sql.ansi.enabled", "true"),
    ):
        given = {name: spark.createDataFrame(tables[name]) for name in one.tables}
        if one.name[:3] in OF_NO_JOIN:
            with pytest.raises(QueryError):
                sql(spark, one.text, given, time=one.time)
            return
        found = sql(spark, one.text, given, time=one.time).toArrow()
    assert found.column_names == answers(one).column_names
    assert counted(found) == counted(answers(one))


@pytest.mark.parametrize("one", [q for q in OF_SPARK if q.name[:3] in FEW], ids=str)
def test_what_people_ask(spark, one, asked_tables, answers):
    asked(spark, one, asked_tables, answers)


@pytest.mark.slow
@pytest.mark.parametrize("one", [q for q in OF_SPARK if q.name[:3] not in FEW], ids=str)
def test_all_that_people_ask(spark, one, asked_tables, answers):
    asked(spark, one, asked_tables, answers)


NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"


def test_what_a_stream_does_not_know(spark, tmp_path):
    rows = table([(1, 1, 1)])
    given = {side: stream_of(spark, written(tmp_path / side, [rows])) for side in "ab"}
    with pytest.raises(QueryError, match="ORDER BY needs all rows, which a stream never has"):
        sql(spark, f"SELECT a.n AS n FROM a JOIN b ON {NEAR} ORDER BY n", given)


def test_exists_of_an_array_joins_nothing():
    group = "SELECT k, count(*) AS n FROM a WHERE {} GROUP BY k"
    assert around._joins(group.format("EXISTS (SELECT 1 FROM b WHERE b.k = a.k)"))
    assert not around._joins(group.format("exists(xs, x -> x > 1)"))


def test_null_is_a_condition(spark):
    """Spark's own SQL takes only NULL of a truth value for one."""
    given = dict.fromkeys("ab", spark.createDataFrame(table([(1, 1, 1)])))
    values = "CASE WHEN NULL THEN 1 ELSE 2 END, CASE a.n WHEN NULL THEN 1 END"
    text = f"SELECT {values}, count(*) FILTER (WHERE (NULL)) OVER () FROM a JOIN b ON {NEAR}"
    assert sql(spark, f"{text} LIMIT 1", given).collect() == [(2, None, 0)]
    assert sql(spark, f"{text} WHERE NULL LIMIT 1", given).collect() == []


def test_what_is_cached_stays_cached(spark):
    frame = spark.createDataFrame(table([(1, 1, 1)])).cache()
    sql(spark, "SELECT a.n AS n FROM a JOIN b ON a.n = b.n", {"a": frame, "b": frame}).collect()
    plan = frame.select("n")._jdf.queryExecution().withCachedData().toString()
    assert "InMemoryRelation" in plan
    frame.unpersist()


def test_explained_by_parts(spark):
    frame = spark.createDataFrame(table([(1, 1, 1)]))
    text = f"SELECT a.n AS n, upper('x') AS u FROM a JOIN b ON {NEAR} ORDER BY n LIMIT 3"
    told = explain(spark, text, {"a": frame, "b": frame})
    assert "a join b     Penstock: SELECT a.n AS `a.n` FROM" in told
    assert "rows of a join b Spark: SELECT" in told
    assert "LIMIT 3" in told
