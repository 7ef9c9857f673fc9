"""Benchmarks of the Spark bridge."""
