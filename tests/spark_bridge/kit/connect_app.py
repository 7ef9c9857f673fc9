"""A streaming join through Spark Connect, in two starts; prints what it found as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from penstock.spark_bridge.java import ensure_java
from tests.spark_bridge.kit.chaos_app import QUERIES
from tests.spark_bridge.kit.streams import (
    cut,
    drawn,
    put,
    rows_of,
    stream_of,
    table,
)

NAMES = ["a", "b"]


def main(folder: Path) -> None:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import penstock
    from penstock.spark_bridge import stream

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    sides = {side: cut(drawn(k, 120, disorder=5), 4) for k, side in enumerate("ab")}
    for side in sides:
        (folder / side).mkdir()
    checkpoint, output = str(folder / "checkpoint"), str(folder / "output")

    def keep(rows, batch: int) -> None:
        # In a process of the server.
        rows.write.mode("overwrite").parquet(f"{output}/batch={batch}")

    said = {"session": type(spark).__module__, "errors": []}
    for part in range(2):
        for side, parts in sides.items():
            for number in range(2 * part, 2 * part + 2):
                put(folder / side, number, table(parts[number]))
        tables = {side: stream_of(spark, folder / side) for side in sides}
        joined = stream(spark, QUERIES["files"], tables, lanes=2)
        writer = joined.writeStream.option("checkpointLocation", checkpoint)
        if part == 0:
            writer = writer.foreachBatch(keep)
        else:
            writer = writer.format("parquet").option("path", output)
        query = writer.trigger(availableNow=True).start()
        said["ended"] = query.awaitTermination(240)
        said["errors"].append(str(query.exception() or ""))
    found = spark.read.schema(joined.schema).parquet(output).select(*NAMES)
    found = found.union(joined.remaining(checkpoint).select(*NAMES))
    whole = {side: table([r for part in parts for r in part]) for side, parts in sides.items()}
    expected = rows_of(penstock.sql(QUERIES["files"], whole), NAMES)
    said |= {"rows": len(expected), "equal": rows_of(found.toArrow(), NAMES) == expected}
    sys.stdout.write("SAID " + json.dumps(said) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
