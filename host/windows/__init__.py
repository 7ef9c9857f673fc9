"""Finds the tuples that can meet, exactly once: feeds, watermarks, windows, ranges, expiry."""
