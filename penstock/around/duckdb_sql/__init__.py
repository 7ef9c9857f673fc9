"""Spark's SQL in DuckDB's: what differs is rewritten, what is not known to agree is refused."""

from .nested import check_compared
from .translation import to_duckdb

__all__ = ["check_compared", "to_duckdb"]
