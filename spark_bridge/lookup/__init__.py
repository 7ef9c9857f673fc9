"""Joins of a DataFrame with a stored relation, and relations made of DataFrames."""
