"""Data sources of Spark: files replayed as streams, and folders of batches.

A package offers a data source by an entry point in the group ``penstock.spark_sources``. See
docs/spark/sources.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.providers import load_provider, providers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP = "penstock.spark_sources"
#: Names of Penstock's own.
NAMES = ("penstock_batches", "penstock_replay")


def register(spark: SparkSession) -> None:
    """Make ``penstock_replay``, ``penstock_batches`` and others' data sources formats of a session.

    Raises
    ------
    MissingToolError
        Penstock's own data sources are not installed, or another one needs a package that is not.

    Examples
    --------
    >>> spark_bridge.register(spark)
    >>> orders.write.parquet(f"{shared}/replayed")
    >>> replay = spark.read.format("penstock_replay").option("time", "t")
    >>> replay.load(f"{shared}/replayed").count()
    2
    """
    for name in dict.fromkeys((*NAMES, *providers(GROUP))):
        spark.dataSource.register(load_provider(GROUP, name, f"the data source {name}"))
