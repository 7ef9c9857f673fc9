"""How many slots a Connect server has whose master does not say so.

``python -m tests.spark_bridge.kit.slots_app``
"""

from __future__ import annotations

import os
import sys

from penstock.spark_bridge.java import ensure_java


def main() -> None:
    """Ask for one worker more than there are cores; says ``SLOTS``, and what is said to that."""
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from penstock.errors import UsageError
    from penstock.spark_bridge import run_workers
    from penstock.spark_bridge.placing import slots_for

    spark = SparkSession.builder.remote("local[*]").getOrCreate()
    slots = slots_for(spark, 1)
    assert slots is not None
    try:
        run_workers(spark, lambda workers: workers.rank, workers=slots + 1)
    except UsageError as error:
        print("SLOTS", slots, error)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
