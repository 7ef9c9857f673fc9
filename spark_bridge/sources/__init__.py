"""Data sources and sinks of Spark: files replayed as streams, batches committed by number.

See docs/spark-sources.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make ``penstock_replay`` and ``penstock_batches`` formats of a session."""
    from penstock.sim.spark_replay.replay import ReplaySource

    from .sink import BatchesSource

    for source in (ReplaySource, BatchesSource):
        spark.dataSource.register(source)
