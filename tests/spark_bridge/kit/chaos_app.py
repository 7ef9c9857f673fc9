"""A streaming join in a process of its own, which may be killed at any moment and started again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from penstock.spark_bridge.java import ensure_java
from tests.spark_bridge.kit.streams import stream_of

NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"
#: File in the folder that says that the sources get no more.
LAST = "last"
_POLL_S = 0.1
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
QUERIES = {
    "files": f"SELECT a.n AS a, b.n AS b FROM a FULL JOIN b ON {NEAR}",
    "state": f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {NEAR}",
}


def main(folder: Path, design: str, master: str, server: str) -> None:
    """Join what comes into the folder, from where the checkpoint is, until its last file."""
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from penstock.spark_bridge.streaming import compaction, stream
    from penstock.spark_bridge.streaming.writer import FolderSink

    compaction.MOST_FILES = 5  # files are merged, too
    spark = (
        SparkSession.builder.master(master)
        .appName("penstock chaos")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        # Lost executors come again; a task may be struck more than once.
        .config("spark.task.maxFailures", "8")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    tables = {side: stream_of(spark, folder / side) for side in "ab"}
    output, checkpoint = str(folder / "output"), str(folder / "checkpoint")
    if design == "state":
        spark.conf.set(PROVIDER, ROCKSDB)
    joined = stream(
        spark,
        QUERIES[design],
        tables,
        lanes=2,
        design=design,
        device="remote",
        device_options={"address": server, "resume_s": 60},
    )
    writer = joined.writeStream.option("checkpointLocation", checkpoint)
    # Each batch replaces what it wrote before, also where Spark's own sink could be used.
    writer = writer.foreachBatch(FolderSink(output, "parquet"))
    query = writer.start()
    while not (folder / LAST).exists():
        query.awaitTermination(_POLL_S)  # raises what the query has failed with
    query.processAllAvailable()
    query.stop()
    if design == "files":
        rest = joined.rest(checkpoint)
        rest.coalesce(1).write.mode("overwrite").parquet(str(folder / "rest"))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
