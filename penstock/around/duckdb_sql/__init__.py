"""Translates Spark's SQL to DuckDB's; functions that are not known to agree are refused."""

from .nested import check_compared
from .text import quoted
from .translation import to_duckdb

__all__ = ["check_compared", "quoted", "to_duckdb"]
