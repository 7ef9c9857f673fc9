"""``penstock_join`` in Spark SQL."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.errors import PythonException

import penstock
from penstock.spark_bridge import register

ON = "r.t BETWEEN l.t - 3 AND l.t + 1 AND abs(l.x - r.x) < 2 AND l.id <> r.id"
CALL = """SELECT * FROM penstock_join(
    TABLE(SELECT 0 AS side, * FROM lefts UNION ALL SELECT 1, * FROM rights) {how}, '{on}', 't')"""


@pytest.mark.slow
def test_in_sql(spark):
    tables = {}
    for name, rows in (("lefts", 400), ("rights", 300)):
        frame = spark.range(rows).selectExpr("id", "cast(id * 7 % 50 AS int) t", "id % 9 AS x")
        frame.createOrReplaceTempView(name)
        tables[name[0]] = frame.toArrow()
    register(spark)
    found = spark.sql(CALL.format(how="WITH SINGLE PARTITION", on=ON)).toArrow()
    query = f"SELECT l.id AS left_id, r.id AS right_id FROM l JOIN r ON {ON}"
    expected = penstock.sql(query, tables, time={"l": "t", "r": "t"})
    order = [("left_id", "ascending"), ("right_id", "ascending")]
    assert found.num_rows > 100
    assert found.sort_by(order).equals(expected.sort_by(order).cast(found.schema))
    with pytest.raises(PythonException, match=r"write TABLE.* WITH SINGLE PARTITION"):
        spark.sql(CALL.format(how="", on=ON)).collect()
