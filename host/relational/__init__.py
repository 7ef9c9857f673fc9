"""SQL of tables, run by DuckDB, which is imported when a query needs it."""
