"""Checkpoints on disk: parts that workers write, and one record that makes them count."""
