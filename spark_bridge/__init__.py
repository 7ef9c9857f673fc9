"""Windowed theta joins of Spark DataFrames on Penstock's devices; see docs/spark.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark_bridge.api import explain, join, sql
    from penstock.spark_bridge.streaming import stream

__all__ = ["explain", "join", "sql", "stream"]


def __getattr__(name: str) -> Any:
    # PySpark is optional, and Java is looked for (spark_bridge.java) before any of it is imported.
    if name == "stream":
        from penstock.spark_bridge.streaming import stream

        return stream
    if name in __all__:
        from penstock.spark_bridge import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
