"""Streams on ranks: workers that an engine has placed, each with input of its own, no parent."""
