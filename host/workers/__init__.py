"""Processes that group one stream together, and begin again together when one of them is lost."""
