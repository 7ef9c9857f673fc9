"""A batch and a streaming join by executors that have a packed environment; prints JSON.

It imports nothing of the tests, which executors do not have.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import penstock
from penstock.spark_bridge import register, sql, stream

QUERY = (
    "SELECT a.id AS i, b.id AS j FROM a JOIN b ON abs(a.x - b.x) < 2 AND b.t "
    "BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 1 SECOND"
)


def homes(batches):
    """In a task: where its Python and its packages are."""
    import sys

    import numba
    import pyarrow as pa

    import penstock
    import penstock.host

    for _ in batches:
        files = [module.__file__ for module in (penstock, penstock.host, numba, pa)]
        found = [sys.prefix, *files, *(path for path in sys.path if path.endswith("-packages"))]
        yield pa.record_batch([found], names=["path"])


def main(folder: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    frames = {}
    for name, rows in (("a", 200), ("b", 150)):
        columns = ("id", "timestamp_seconds(id % 50) AS t", "cast(id % 9 AS int) AS x")
        made = spark.range(rows).selectExpr(*columns)
        made.repartitionByRange(2, "t").write.parquet(f"{folder}/{name}")
        frames[name] = spark.read.parquet(f"{folder}/{name}")
    # A Python data source is planned on the driver.
    replayed = spark.read.format("penstock_replay").option("time", "t").load(f"{folder}/a").count()
    expected = penstock.sql(
        QUERY, {name: frame.toArrow() for name, frame in frames.items()}, time={"a": "t", "b": "t"}
    )
    batch = sql(spark, QUERY, frames, time={"a": "t", "b": "t"}, lanes=2).collect()
    streams = {
        name: spark.readStream.schema(frame.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(f"{folder}/{name}")
        .withWatermark("t", "50 seconds")
        for name, frame in frames.items()
    }
    query = (
        stream(spark, QUERY, streams, lanes=2)
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/rows")
    )
    if not query.awaitTermination(600):
        raise TimeoutError("the stream did not end")
    streamed = spark.read.parquet(f"{folder}/rows").collect()
    homes_of_tasks = spark.range(8).repartition(4).mapInArrow(homes, "path string")
    rows = sorted(zip(*expected.to_pydict().values(), strict=True))
    said = {
        "master": spark.conf.get("spark.master"),
        "driver": sys.prefix,
        "rows": len(rows),
        "replayed": replayed,
        "batch": sorted(map(tuple, batch)) == rows,
        "streamed": sorted((row["i"], row["j"]) for row in streamed) == rows,
        "homes": [row["path"] for row in homes_of_tasks.collect()],
    }
    sys.stdout.write("SAID " + json.dumps(said) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
