"""Joins of Spark's DataFrames, and lookups in relations, on devices; see docs/spark/tables.md.

Examples
--------
The examples of the calls use these DataFrames, this query, and a folder that all workers share:

>>> from pathlib import Path
>>> from pyspark.sql import SparkSession
>>> from penstock import spark_bridge
>>> spark, shared = SparkSession.builder.getOrCreate(), str(Path("shared").absolute())
>>> orders = spark.createDataFrame([(1, 10, 0), (2, 50, 9)], "id INT, t INT, x INT")
>>> gps = spark.createDataFrame([(7, 12, 2), (8, 90, 9)], "cab INT, t INT, x INT")
>>> near = '''SELECT id, cab FROM orders o JOIN gps g
...     ON abs(o.x - g.x) < 5 AND g.t BETWEEN o.t - 5 AND o.t + 5'''
>>> tables, time = {"orders": orders, "gps": gps}, {"o": "t", "g": "t"}
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.errors import MissingToolError, installing

if TYPE_CHECKING:
    from .api import explain, join, sql, stream
    from .lookup.build_relation import relation
    from .metrics.listener import watch
    from .placing import run_workers
    from .sources import register

__all__ = ["explain", "join", "register", "relation", "run_workers", "sql", "stream", "watch"]

_HOMES = {
    "explain": "api",
    "join": "api",
    "register": "sources",
    "relation": "lookup.build_relation",
    "run_workers": "placing",
    "sql": "api",
    "stream": "api",
    "watch": "metrics.listener",
}


def __getattr__(name: str) -> Any:
    # Imported on use: PySpark is optional, and programs look for Java before they import it.
    if name in _HOMES:
        try:
            return getattr(import_module(f"penstock.spark_bridge.{_HOMES[name]}"), name)
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            if package == "penstock":
                raise
            raise MissingToolError(
                f"spark_bridge.{name} needs {package}, which is not installed; "
                f"{installing('spark')}"
            ) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
