"""Streams on ranks: processes that an engine has placed, each with rows of its own, no parent."""
