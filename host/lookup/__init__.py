"""Which pages of a relation to read for rows that look it up, and which of its rows to keep."""
