"""Runs the workers of a stream in tasks that Spark places."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark import InheritableThread, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock import arguments
from penstock.errors import LostError, ProcessError, UsageError
from penstock.host.routing.base import WORKER_CELLS
from penstock.host.wire.errors import error_from
from penstock.host.workers.members import Workers

from .barrier import SCHEMA, run_worker
from .session_settings import parallelism
from .shown import task_of
from .threads import in_thread

T = TypeVar("T")

_SIZE = partial(arguments.whole, least=1, most=WORKER_CELLS)


#: Seconds after its start in which executors may still come to a session, as Spark waits for them
#: (``spark.scheduler.maxRegisteredResourcesWaitingTime``), and between two looks.
REGISTERED_S, _LOOK_S = 30.0, 0.2
#: Settings that give the number of partitions, whatever cores there are.
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
    return parallelism(spark) // per_task


def _conf(spark: SparkSession, name: str) -> str:
    return spark.conf.get(name, None) or ""


def run_workers(spark: SparkSession, main: Callable[[Workers], T], *, workers: int) -> list[T]:
    """Run a function in tasks that Spark places; each task is a worker of the same streams.

    The tasks are a barrier stage: Spark starts all of them at once, and if one is lost, all of them
    again, up to ``spark.stage.maxConsecutiveAttempts`` times. A stream that ``main`` opens with a
    checkpoint then goes on from its last record.

    Parameters
    ----------
    spark : SparkSession
        Of this process or, with Spark Connect, of a server.
    main : callable
        Takes a :class:`penstock.workers.Workers`, and opens streams with it:
        ``penstock.stream(..., workers=workers)``. It is pickled, as is what it returns. It runs in
        Spark's Python processes, again after a loss.
    workers : int

    Returns
    -------
    list
        What each worker has returned, by rank.

    Raises
    ------
    UsageError
        Spark has fewer slots than workers.
    ProcessError
        A worker was lost too often.
    PenstockError
        ``main`` has failed in one worker: the first error, with its rank. All have ended. Its notes
        have the traceback of an error that is not Penstock's.
    KeyboardInterrupt
        All have been told to end.

    Notes
    -----
    The slots are held while the streams run. See docs/spark/workers.md.

    Examples
    --------
    >>> spark_bridge.run_workers(spark, lambda workers: workers.rank, workers=2)
    [0, 1]
    """
    # Spark Connect's session is a class beside the classic one.
    if type(spark).__name__ != SparkSession.__name__:
        raise arguments.refuse("spark", "a SparkSession", spark)
    if not callable(main):
        raise arguments.refuse("main", "a function of penstock.workers.Workers", main)
    _SIZE("workers", workers)
    slots = slots_for(spark, workers)
    if slots is not None and slots < workers:
        raise UsageError(
            f"{workers} workers need as many slots at the same time, and Spark has {slots}; ask "
            "for fewer workers, or give Spark more cores or executors"
        )

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # the one row that makes this task
            pass
        yield from run_worker(main)

    rows = spark.range(0, workers, 1, workers)
    reports = rows.mapInArrow(task_of("worker", task), from_arrow_schema(SCHEMA), barrier=True)
    try:
        # Spark begins a barrier stage again only if a shuffle follows it.
        results = _collected(spark, reports.repartition(1))
    except Exception as cause:
        raise ProcessError(f"Spark could not run {workers} workers: {_reason(cause)}") from cause
    results.sort(key=lambda row: row.rank)
    failed = [row for row in results if row.error is not None]
    if failed:
        raise _first(failed)
    return [cast(T, cloudpickle.loads(bytes(row.result))) for row in results]


def _collected(spark: SparkSession, frame: DataFrame) -> list[Any]:
    """Collect rows; at Ctrl-C the tasks end, which would otherwise hold their slots."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return _collected_by_server(spark, frame)

    def collect() -> list[Any]:
        context.setInterruptOnCancel(True)
        return frame.collect()

    # Spark's own handler of Ctrl-C cancels all jobs, but by the line to Java of this thread, which
    # a call must not be holding.
    return in_thread("penstock-workers", collect, InheritableThread).result()


def _collected_by_server(spark: SparkSession, frame: DataFrame) -> list[Any]:
    tag = f"penstock-workers-{uuid.uuid4().hex}"
    spark.addTag(tag)
    try:
        return frame.collect()
    except KeyboardInterrupt:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)


def _first(failed: list[Any]) -> Exception:
    """Return the error of the worker that failed first; others are lost because of it."""
    lost = LostError.__name__

    def when(row: Any) -> tuple[bool, float]:
        header = json.loads(row.error)
        return header["kind"] in (lost, ProcessError.__name__) and len(failed) > 1, row.at

    first = min(failed, key=when)
    header = json.loads(first.error)
    header["message"] = f"worker {first.rank} has failed: {header['message']}"
    error = error_from(header, f"worker {first.rank}")
    if "trace" in header:
        error.add_note(f"On worker {first.rank}:\n{header['trace']}")
    return error


#: The line of a message of Spark's that says what a Python worker has raised.
_RAISED = re.compile(r"(?!org\.|java\.|scala\.)[\w.]+(?:Error|Exception)(?:: .*)?")


def _reason(cause: Exception) -> str:
    """Return the line of Spark's message that says what happened."""
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.fullmatch(line)]
    # Where Java has failed, the first line says which of its methods was called.
    causes = [*raised[-1:], *(line.removeprefix(": ") for line in lines if line.startswith(": "))]
    return [*causes, *lines, type(cause).__name__][0]
