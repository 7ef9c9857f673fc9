"""Lanes by key: plans, and what they cost."""
