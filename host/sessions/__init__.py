"""Sessions of a join's rows: their numbers, and rows whose sessions may still grow."""
