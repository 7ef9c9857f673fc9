"""Rows in columns: Arrow in and out, growing storage, files."""
