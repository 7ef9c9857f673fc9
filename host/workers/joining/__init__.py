"""Joins on workers: rows go to the leader of their keys, or to all workers where there are none."""
