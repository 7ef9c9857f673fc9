"""Figures of streaming joins in Spark: counted in the tasks, reported per micro-batch."""
