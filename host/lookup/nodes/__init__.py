"""Lookup nodes (D-CACHEJOIN): processes that share a relation's keys by a ring; their clients."""
