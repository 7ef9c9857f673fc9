"""Joins of two whole tables."""
