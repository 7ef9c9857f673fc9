"""Joins of a table that is held with one that comes in parts."""
