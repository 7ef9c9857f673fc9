"""Joins of a held table with a table that comes in parts."""
