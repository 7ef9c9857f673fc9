"""Benchmarks of the host: what is predicted beside what is measured."""
