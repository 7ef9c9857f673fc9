"""A streaming join in a process of its own, which may be killed at any moment and started again."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark_bridge.kit.apps import put_rest, session
from tests.spark_bridge.kit.streams import stream_of

NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"
#: File in the folder that says that the sources get no more.
LAST = "last"
_POLL_S = 0.1
QUERIES = {
    "files": f"SELECT a.n AS a, b.n AS b FROM a FULL JOIN b ON {NEAR}",
    "state": f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {NEAR}",
}


def main(folder: Path, design: str, master: str, server: str) -> None:
    """Join what comes into the folder, from where the checkpoint is, until its last file."""
    from penstock.spark_bridge.streaming import compaction, stream
    from penstock.spark_bridge.streaming.output import FolderSink

    compaction.MOST_FILES = 5  # files are merged, too
    settings = {
        "spark.driver.host": "127.0.0.1",
        # Lost executors come again; a task may be struck more than once.
        "spark.task.maxFailures": "8",
    }
    spark = session(folder, design, settings, master)
    tables = {side: stream_of(spark, folder / side) for side in "ab"}
    output, checkpoint = str(folder / "output"), str(folder / "checkpoint")
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
        put_rest(joined, folder)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
