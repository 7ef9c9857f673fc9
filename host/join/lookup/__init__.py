"""Joins of a stream, or of a table, with a relation."""
