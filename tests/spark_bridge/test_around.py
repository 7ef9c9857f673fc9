"""Queries that are more than one join: Penstock's joins, and Spark's own SQL around them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import QueryError
from penstock.spark_bridge import explain, sql
from tests.penstock.kit.people import counted
from tests.spark_bridge.kit.streams import stream_of, table, written

# Fixtures of what people ask, and what Spark answers.
from tests.spark_bridge.test_people import OF_SPARK, names_of, setting, tables, wanted  # noqa: F401

#: There is no join in it, so that nothing of it is Penstock's.
OF_NO_JOIN = {"102"}
#: Spark's average of decimals is a decimal, and ours a double.
AVERAGES = {"068"}
#: Those that every run asks: a chain, a zero count, haversine, a lateral join, percentiles, ranks.
FEW = {"061", "090", "096", "105"}


def asked(spark, one, tables, wanted):  # noqa: F811
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
    assert found.column_names == wanted[one.name].column_names
    if one.name[:3] in AVERAGES:
        assert found.num_rows == wanted[one.name].num_rows
    else:
        assert counted(found) == counted(wanted[one.name])


@pytest.mark.parametrize("one", [q for q in OF_SPARK if q.name[:3] in FEW], ids=names_of)
def test_what_people_ask(spark, one, tables, wanted):  # noqa: F811
    asked(spark, one, tables, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("one", [q for q in OF_SPARK if q.name[:3] not in FEW], ids=names_of)
def test_all_that_people_ask(spark, one, tables, wanted):  # noqa: F811
    asked(spark, one, tables, wanted)


NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"


def test_what_a_stream_does_not_know(spark, tmp_path):
    rows = table([(1, 1, 1)])
    given = {side: stream_of(spark, written(tmp_path / side, [rows])) for side in "ab"}
    with pytest.raises(QueryError, match="ORDER BY needs all rows, which a stream never has"):
        sql(spark, f"SELECT a.n AS n FROM a JOIN b ON {NEAR} ORDER BY n", given)


def test_explained_by_parts(spark):
    frame = spark.createDataFrame(table([(1, 1, 1)]))
    text = f"SELECT a.n AS n, upper('x') AS u FROM a JOIN b ON {NEAR} ORDER BY n LIMIT 3"
    told = explain(spark, text, {"a": frame, "b": frame})
    assert "part_1       Penstock" in told
    assert "part_2       Spark" in told
    assert "LIMIT 3" in told
