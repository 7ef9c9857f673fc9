"""Joins of streaming DataFrames, micro-batch by micro-batch; see docs/spark/streams.md.

Rows enter versioned Arrow files, one JSON file per batch says which of them a
join reads and what was promised, and what leaves is a function of that file alone.
"""
