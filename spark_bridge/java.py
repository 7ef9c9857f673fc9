"""``ensure_java``, which programs call before they start Spark."""

from penstock.sim.local_spark.java import ensure_java

__all__ = ["ensure_java"]
