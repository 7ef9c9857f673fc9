"""Windowed stream joins on arbitrary predicates."""
