"""A streaming join in a process of its own, which may be killed at any moment and started again."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark_bridge.kit.apps import put_rest, session
from tests.spark_bridge.kit.streams import stream_of

NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"
#: Relation in the folder, in whose column v is the number of its version.
RELATION = "b.rel"
#: File in the folder that says that the sources get no more.
LAST = "last"
_POLL_S = 0.1
QUERIES = {
    "files": f"SELECT a.n AS a, b.n AS b FROM a FULL JOIN b ON {NEAR}",
    "groups": f"SELECT min(a.n) AS a, count(b.n) AS b FROM a LEFT JOIN b ON {NEAR} "
    "GROUP BY window(a.t, '9 seconds')",
}
#: With a Delta table as output.
DELTA = "delta"
QUERIES[DELTA] = QUERIES["files"]
#: Looks rows up in a relation that changes meanwhile.
LOOKUP = "SELECT a.n AS a, b.m AS b, b.v AS v FROM a LEFT JOIN b ON a.n % 50 = b.k"


def main(folder: Path, design: str, master: str, server: str, partitioning: str) -> None:
    """Join what comes into the folder, from where the checkpoint is, until its last file."""
    import penstock
    from penstock.spark_bridge import stream
    from penstock.spark_bridge.streaming import compaction, microbatch
    from penstock.spark_bridge.streaming.output_folders import FolderSink

    compaction.MOST_FILES = 5  # files are merged, too
    settings = {
        "spark.driver.host": "127.0.0.1",
        # Lost executors come again; a task may be struck more than once.
        "spark.task.maxFailures": "8",
    }
    spark = session(folder, settings, master)
    output, checkpoint = str(folder / "output"), str(folder / "checkpoint")
    options = {"device": "remote", "device_options": {"address": server, "resume_s": 60}}
    if design == "lookup":
        tables = {"a": stream_of(spark, folder / "a"), "b": penstock.relation(folder / RELATION)}
        joined = stream(spark, LOOKUP, tables, lanes=2, **options)
    else:
        tables = {side: stream_of(spark, folder / side) for side in "ab"}
        if partitioning == "keys":
            microbatch.PAIRS_PER_SHARD = 1  # lanes come with far more rows than these
            spark.conf.set("spark.penstock.routing.cells", 8)
            options |= {"partitioning": partitioning, "lanes": 3}
        joined = stream(spark, QUERIES[design], tables, **{"lanes": 2, **options})
    writer = joined.writeStream.option("checkpointLocation", checkpoint)
    if design == DELTA:
        query = writer.format(DELTA).options(compactEvery=3, vacuum=True).start(output)
    else:
        # Each batch replaces what it wrote before, also where Spark's own sink could be used.
        query = writer.foreachBatch(FolderSink(output, "parquet")).start()
    while not (folder / LAST).exists():
        query.awaitTermination(_POLL_S)  # raises what the query has failed with
    query.processAllAvailable()
    query.stop()
    if design != "lookup":
        put_rest(joined, folder)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
