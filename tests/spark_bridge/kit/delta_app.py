"""A streaming join into a Delta table, whose driver ends around the commit of its second batch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.spark_bridge.kit.apps import session
from tests.spark_bridge.kit.streams import stream_of

NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"
TEXT = f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {NEAR}"
#: Status of a driver that has ended there.
EXIT = 9


def main(folder: Path, point: str, zone: str) -> None:
    """Join the files of the folder; end ``before`` or ``after`` the commit."""
    from deltalake import DeltaTable

    from penstock.spark_bridge import stream

    commit = DeltaTable.create_write_transaction

    def struck(table: DeltaTable, *args, **kwargs) -> None:
        is_second = table.version() == 1
        if is_second and point == "before":
            os._exit(EXIT)
        commit(table, *args, **kwargs)
        if is_second:
            os._exit(EXIT)

    DeltaTable.create_write_transaction = struck
    settings = {"spark.driver.host": "127.0.0.1", "spark.sql.session.timeZone": zone}
    spark = session(folder, settings, "local[2]")
    joined = stream(spark, TEXT, {side: stream_of(spark, folder / side) for side in "ab"}, lanes=2)
    writer = joined.writeStream.format("delta").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.start(str(folder / "out")).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
