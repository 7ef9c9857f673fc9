"""Checkpoints on disk: part files of workers, and a record, which makes them count."""
