"""Spark's SQL in DuckDB's: what differs is rewritten, what is not known to agree is refused."""

from .translation import to_duckdb

__all__ = ["to_duckdb"]
