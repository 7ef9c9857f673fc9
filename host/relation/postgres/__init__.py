"""Relations that are tables of a PostgreSQL server: asked for keys, or read by ranges of blocks."""
