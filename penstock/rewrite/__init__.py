"""Rewrites of the predicate, each a small function that keeps its value."""
