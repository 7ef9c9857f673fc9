"""A local Spark session that needs nothing but this package's extras."""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.spark_bridge.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Configuration of the log until a session sets its level.
_LOGGING = Path(__file__).with_name("quiet.properties")


@cache
def _warehouse() -> str:
    """Folder of this process's tables. Its catalog ends with it, so no other process needs them."""
    folder = TemporaryDirectory(prefix="penstock-warehouse-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return folder.name


def local_session(name: str, *, cores: int | None = None) -> SparkSession:
    """Start Spark in this process, on the cores of this machine.

    Parameters
    ----------
    name : str
        Application name.
    cores : int, optional
        Tasks that run at a time; all cores by default.

    Raises
    ------
    MissingToolError
        There is neither a Java 17 nor the ``java`` extra.
    """
    ensure_java()
    from pyspark.sql import SparkSession

    # Workers must run this interpreter, or they would lack this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    count = cores or len(os.sched_getaffinity(0))
    return (
        SparkSession.builder.master(f"local[{count}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(2 * count))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", _warehouse())
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGGING}")
        .getOrCreate()
    )
