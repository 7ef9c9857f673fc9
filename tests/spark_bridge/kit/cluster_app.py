"""A batch join on whatever master SPARK_CONF_DIR names; prints what it found as JSON."""

from __future__ import annotations

import json
import os
import sys

from penstock.spark_bridge.java import ensure_java

QUERY = (
    "SELECT a.id AS i, b.id AS j FROM a JOIN b "
    "ON b.t BETWEEN a.t - 3 AND a.t + 1 AND abs(a.x - b.x) < 2"
)


def main(resource: str) -> None:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import penstock
    from penstock.spark_bridge import sql

    builder = SparkSession.builder.appName("penstock cluster").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    if resource:
        for kind in ("executor", "task"):
            builder = builder.config(f"spark.{kind}.resource.{resource}.amount", "1")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frames = {
        name: spark.range(rows).selectExpr(
            "id", "cast(id * 7 % 50 AS int) AS t", "cast(id % 9 AS int) AS x"
        )
        for name, rows in (("a", 400), ("b", 300))
    }
    tables = {name: frame.toArrow() for name, frame in frames.items()}
    time = {"a": "t", "b": "t"}
    found = sql(spark, QUERY, frames, time=time, lanes=3).toArrow()
    expected = penstock.sql(QUERY, tables, time=time)
    order = [(name, "ascending") for name in expected.schema.names]

    def workers(batches):
        # Which Spark worker this is, by the folder in which it runs its executors.
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch([[os.getcwd()]], names=["folder"])

    many = spark.range(64).repartition(16).mapInArrow(workers, "folder string")
    ask = "java_method('java.lang.System', 'getProperty', 'java.home') AS java"
    said = {
        "master": spark.conf.get("spark.master"),
        "rows": found.num_rows,
        "equal": found.cast(expected.schema).sort_by(order).equals(expected.sort_by(order)),
        "folders": sorted({row["folder"] for row in many.collect()}),
        # In an executor's Java, not in the driver's.
        "java": spark.range(2).repartition(2).selectExpr("id", ask).collect()[0]["java"],
    }
    sys.stdout.write("SAID " + json.dumps(said) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
