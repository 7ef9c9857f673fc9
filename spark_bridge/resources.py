"""Checks that tasks can get devices as Spark resources."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import functions as F

from penstock.errors import UsageError

from .conf import Conf
from .threads import in_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_resources(spark: SparkSession, conf: Conf) -> None:
    """Refuse settings with which tasks would wait for a resource for ever.

    Raises
    ------
    UsageError
    """
    name = conf.resource
    needed = _number(spark, f"spark.task.resource.{name}.amount")
    if not needed:
        return
    master = spark.conf.get("spark.master", None) or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise UsageError(
            f"spark.task.resource.{name}.amount is set, but master {master} has no executors with "
            "resources, and its tasks would wait for ever; unset it and name the device with "
            "spark.penstock.device, or use local-cluster, standalone, YARN or Kubernetes"
        )
    offered = _number(spark, f"spark.executor.resource.{name}.amount")
    if offered < needed:
        raise UsageError(
            f"a task needs {needed:g} of resource {name} and an executor has {offered:g}, so none "
            f"would start; set spark.executor.resource.{name}.amount (and discoveryScript) to at "
            "least as many"
        )


def await_slot(spark: SparkSession, conf: Conf) -> None:
    """Check, by a small job, that a task can get its resource; else the query would wait for ever.

    Raises
    ------
    UsageError
        No task began in time.
    """
    if not _number(spark, f"spark.task.resource.{conf.resource}.amount"):
        return
    tag = f"penstock-slot-{uuid4().hex}"

    def begin() -> None:
        spark.addTag(tag)
        spark.range(1).select(F.spark_partition_id()).collect()

    try:
        # In a classic session the job cannot be interrupted from another thread, and may wait until
        # the session stops.
        in_thread("penstock-slot", begin).result(conf.wait_seconds)
    except TimeoutError:
        spark.interruptTag(tag)
        raise UsageError(
            f"no task began within {conf.wait_seconds} s: no executor has the resource "
            f"{conf.resource} that each task needs, or others hold all of it; see that each "
            f"worker offers it (spark.worker.resource.{conf.resource}.amount and "
            "discoveryScript), stop what holds it, or raise "
            "spark.penstock.device.waitSeconds"
        ) from None


def _number(spark: SparkSession, key: str) -> float:
    text = spark.conf.get(key, None) or "0"
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{key} is {text!r}, not a number") from None
