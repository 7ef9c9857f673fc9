"""Data sources of Spark: files replayed as streams, and folders of batches.

A package offers a data source by an entry point in the group ``penstock.spark_sources``. See
docs/spark-sources.md.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from penstock.errors import MissingToolError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP = "penstock.spark_sources"


def register(spark: SparkSession) -> None:
    """Make ``penstock_replay``, ``penstock_batches`` and others' data sources formats of a session.

    Raises
    ------
    MissingToolError
        No data source is installed: Penstock's own are missing.
    """
    sources = entry_points(group=GROUP)
    if not sources:
        raise MissingToolError(
            "the installed penstock is of an earlier version, without data sources for Spark; "
            "install it again with pip"
        )
    for source in sources:
        spark.dataSource.register(source.load())
