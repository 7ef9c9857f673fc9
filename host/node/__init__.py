"""Lookup nodes: processes that keep rows of a relation in memory, and answer for their keys."""
