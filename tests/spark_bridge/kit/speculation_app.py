"""A streaming join in which Spark starts tasks a second time while they still run.

The master is what SPARK_CONF_DIR names: Spark has no second attempt on the same host.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from tests.spark_bridge.kit.apps import put_rest, session
from tests.spark_bridge.kit.chaos_app import QUERIES
from tests.spark_bridge.kit.streams import DDL, stream_of

#: Seconds that a first attempt waits for a second one.
_PATIENCE_S = 120


def held(folder: Path, what: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows as they are; the first attempt of the second task ends once it has company.

    Parameters
    ----------
    folder : Path
        Gets a file per task that was attempted twice, ``<what>-<stage>.second``.
    what : str
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() != 1:
            return
        meeting = folder / f"{what}-{context.stageId()}"
        with suppress(FileExistsError):
            os.mkfifo(meeting)
        if context.attemptNumber() == 0:
            with open(os.open(meeting, os.O_RDONLY | os.O_NONBLOCK)) as other:
                select.select([other], [], [], _PATIENCE_S)
        else:
            with open(meeting, "w"):  # waits for the first attempt
                meeting.with_suffix(".second").touch()

    return run


def main(folder: Path) -> None:
    """Join the files in ``a`` and ``b``."""
    from pyspark.sql import DataFrame

    from penstock.spark_bridge import stream
    from penstock.spark_bridge.streaming import microbatch
    from penstock.spark_bridge.streaming.output_folders import FolderSink

    microbatch.PAIRS_PER_SHARD = 10  # two tasks, however few the rows
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
    }
    spark = session(folder, settings)
    tables = {}
    for side in "ab":
        rows = stream_of(spark, folder / side, delay=None).mapInArrow(held(folder, "in"), DDL)
        tables[side] = rows.withWatermark("t", "5 seconds")
    joined = stream(spark, QUERIES["files"], tables, lanes=2)
    sink, checkpoint = FolderSink(str(folder / "output"), "parquet"), str(folder / "checkpoint")

    def put(rows: DataFrame, batch: int) -> None:
        sink(rows.mapInArrow(held(folder, "out"), rows.schema), batch)

    writer = joined.writeStream.option("checkpointLocation", checkpoint).foreachBatch(put)
    writer.trigger(availableNow=True).start().awaitTermination()
    put_rest(joined, folder)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
