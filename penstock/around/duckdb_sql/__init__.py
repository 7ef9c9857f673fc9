"""Spark's SQL in DuckDB's: what differs is rewritten, what is not known to agree is refused."""

from .nested import check_compared
from .text import quoted
from .translation import to_duckdb

__all__ = ["check_compared", "quoted", "to_duckdb"]
