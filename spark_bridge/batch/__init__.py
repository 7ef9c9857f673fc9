"""Joins of batch DataFrames."""
