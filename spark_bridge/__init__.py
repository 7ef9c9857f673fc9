"""Windowed theta joins of Spark DataFrames on Penstock's devices; see docs/spark.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark_bridge.api import explain, join, sql
    from penstock.spark_bridge.metrics import watch
    from penstock.spark_bridge.streaming import stream
    from penstock.spark_bridge.table_function import register

__all__ = ["explain", "join", "register", "sql", "stream", "watch"]

_HOMES = {
    "explain": "api",
    "join": "api",
    "register": "table_function",
    "sql": "api",
    "stream": "streaming",
    "watch": "metrics",
}


def __getattr__(name: str) -> Any:
    # PySpark is optional, and Java is looked for (spark_bridge.java) before any of it is imported.
    if name in _HOMES:
        return getattr(import_module(f"penstock.spark_bridge.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
