"""Runs SQL around joins: a query is split into joins of Penstock's and SQL of tables.

The text is Spark's. :mod:`.splitting` finds the windowed joins, which stay here, and leaves the
rest to an engine for tables; :mod:`.duckdb_sql` says it in that engine's SQL.
"""
