"""Devices as Spark resources: what a session's settings must have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import UsageError
from penstock.spark_bridge.conf import Conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_resources(spark: SparkSession, conf: Conf) -> None:
    """Refuse settings with which Spark would wait for a resource for ever.

    Raises
    ------
    UsageError
    """
    name = conf.resource
    asked = _number(spark, f"spark.task.resource.{name}.amount")
    if not asked:
        return
    master = spark.conf.get("spark.master", None) or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise UsageError(
            f"spark.task.resource.{name}.amount is set, but master {master} has no executors with "
            "resources, and its tasks would wait for ever; unset it and name the device with "
            "spark.penstock.device, or use local-cluster, standalone, YARN or Kubernetes"
        )
    offered = _number(spark, f"spark.executor.resource.{name}.amount")
    if offered < asked:
        raise UsageError(
            f"a task needs {asked:g} of resource {name} and an executor has {offered:g}, so none "
            f"would start; set spark.executor.resource.{name}.amount (and discoveryScript) to at "
            "least as many"
        )


def _number(spark: SparkSession, key: str) -> float:
    text = spark.conf.get(key, None) or "0"
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{key} is {text!r}, not a number") from None
