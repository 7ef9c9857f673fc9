"""What Spark, or DuckDB where Spark has no such thing, answers to the queries of tests/sql."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from tests.penstock.kit.people import Asked
from tests.spark_bridge.kit.settings import setting

HAVERSINE = (
    "2 * 6371008.8D * asin(sqrt(least(1.0D, pow(sin((radians(c) - radians(a)) / 2), 2) + "
    "cos(radians(a)) * cos(radians(c)) * pow(sin((radians(d) - radians(b)) / 2), 2))))"
)


class Answers:
    """Answers to queries, each asked once."""

    def __init__(self, spark, tables: dict[str, pa.Table]) -> None:
        self._spark, self._tables = spark, tables
        self._frames = {}
        self._found: dict[str, pa.Table] = {}

    def __call__(self, asked: Asked) -> pa.Table:
        if asked.name not in self._found:
            ask = self._by_spark if asked.said["oracle"] == "spark" else self._by_duckdb
            self._found[asked.name] = ask(asked)
        return self._found[asked.name]

    def _by_spark(self, asked: Asked) -> pa.Table:
        spark = self._spark
        with (
            setting(spark, "spark.sql.ansi.enabled", "true"),
            setting(spark, "spark.sql.session.timeZone", "UTC"),
        ):
            for name in asked.tables:
                if name not in self._frames:
                    self._frames[name] = spark.createDataFrame(self._tables[name])
                self._frames[name].createOrReplaceTempView(name)
            spark.sql(
                "CREATE OR REPLACE TEMPORARY FUNCTION haversine(a DOUBLE, b DOUBLE, c DOUBLE, "
                f"d DOUBLE) RETURNS DOUBLE RETURN {HAVERSINE}"
            )
            try:
                return spark.sql(asked.text).toArrow()
            finally:
                spark.sql("DROP TEMPORARY FUNCTION haversine")
                for name in asked.tables:
                    spark.catalog.dropTempView(name)

    def _by_duckdb(self, asked: Asked) -> pa.Table:
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            for name in asked.tables:
                database.register(name, self._tables[name])
            return database.sql(asked.text).to_arrow_table()
