"""Data sources of Spark: files replayed as streams, and folders of batches.

See docs/spark-sources.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make ``penstock_replay`` and ``penstock_batches`` formats of a session."""
    from penstock.sim.spark_replay.replay import ReplaySource

    from .batches import BatchesSource

    for source in (ReplaySource, BatchesSource):
        spark.dataSource.register(source)
