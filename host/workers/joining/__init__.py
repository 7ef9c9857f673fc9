"""Joins on workers: rows go to the leader of their key, or to all workers if there are no keys."""
