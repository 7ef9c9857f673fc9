"""Windowed theta joins of Spark DataFrames on Penstock's devices; see docs/spark.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark_bridge.batch.join import sql

__all__ = ["sql"]


def __getattr__(name: str) -> Any:
    # PySpark is optional, and Java is looked for (spark_bridge.java) before any of it is imported.
    if name == "sql":
        from penstock.spark_bridge.batch.join import sql

        return sql
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
