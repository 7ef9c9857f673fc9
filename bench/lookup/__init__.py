"""Lookups of a stream in a stored relation, beside other ways to answer them."""
