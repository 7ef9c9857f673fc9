"""How many tasks Spark can run at the same time."""

from __future__ import annotations

import re
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

#: Seconds after its start in which executors may still come to a session, as Spark waits for them
#: (``spark.scheduler.maxRegisteredResourcesWaitingTime``), and between two looks.
REGISTERED_S, _LOOK_S = 30.0, 0.2
#: Rows of the job that counts partitions: more than any default of them.
_MOST = 1 << 16
#: What sets the number of partitions, whatever cores there are.
_SET = ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism")


def slots_for(spark: SparkSession, wanted: int) -> int | None:
    """Return how many tasks can run at the same time; None if the session cannot tell.

    If they are fewer than wanted, and the session of a cluster has just begun, it waits for
    executors to come.
    """
    context = getattr(spark, "_sc", None)
    if context is None:
        return _slots_of_server(spark)
    scala = context._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    is_local = re.fullmatch(r"local(\[.*\])?", context.master)
    until = 0.0 if is_local else context.startTime / 1000 + REGISTERED_S
    while (slots := int(scala.maxNumConcurrentTasks(profile))) < wanted and time.time() < until:
        time.sleep(_LOOK_S)
    return slots


def _slots_of_server(spark: SparkSession) -> int | None:
    """Return the slots of a Connect server, which tells them by its configuration at most."""
    master = _conf(spark, "spark.master")
    per_task = int(_conf(spark, "spark.task.cpus") or 1)
    if master == "local":
        return 1
    if local := re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master):
        return int(local[1]) // per_task
    if cluster := re.fullmatch(r"local-cluster\[(\d+),\s*(\d+),\s*\d+\]", master):
        return int(cluster[1]) * (int(cluster[2]) // per_task)
    if any(_conf(spark, name) for name in _SET):
        return None
    # Rows without a number of partitions lie in as many as there are cores, and two at least.
    parts = spark.range(_MOST).select(F.spark_partition_id().alias("part")).distinct().count()
    return parts // per_task


def _conf(spark: SparkSession, name: str) -> str:
    return spark.conf.get(name, None) or ""
