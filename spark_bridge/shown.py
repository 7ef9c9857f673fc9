"""Functions of Spark's tasks, and the names and errors that Spark's own UI shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.plan.query import JoinQuery

#: Gives the rows of a partition for those of another.
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: Has Spark's worker tell of an error without the calls that led to it.
_HIDES = "SPARK_HIDE_TRACEBACK"
_DESCRIPTION = "spark.job.description"


def task_of(name: str, work: Work) -> Work:
    """A function for ``mapInArrow`` that Spark shows under a name.

    What Spark tells of an error of Penstock's in it is the message, without the calls.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from work(batches)
        except PenstockError as error:
            if _HIDES in os.environ:
                raise
            os.environ[_HIDES] = "1"
            raise _once(error) from None

    task = with_modules(run)
    task.__name__ = f"penstock {name}"
    return task


def with_modules(work: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of tasks: where Python lacks a module of it, the error says what to do.

    It travels with ``work`` as bytes and refers to nothing but Python's own modules, so that Spark
    can load it in any Python.
    """
    from pyspark import cloudpickle

    packed = cloudpickle.dumps(work)

    def run(*args: Any) -> Any:
        import pickle
        import sys

        try:
            loaded = pickle.loads(packed)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"the Python of this executor, {sys.executable}, has no module {error.name}, which "
                "tasks of Penstock need: install Penstock there, or send it with the program in an "
                "archive that `penstock spark pack` makes; see docs/spark/deploy.md",
                name=error.name,
            ) from None
        return loaded(*args)

    run.__annotations__ = {}  # from which Spark would infer another kind of function
    return run


def _once(error: PenstockError) -> PenstockError:
    """Copy an error so that, once Spark has printed it, later errors again show their calls."""
    kind = type(error)

    def text(self: PenstockError) -> str:
        os.environ.pop(_HIDES, None)
        return kind.__str__(self)

    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__str__": text}
    return type(kind.__name__, (kind,), names)(*error.args)


def join_text(query: JoinQuery) -> str:
    """Name a join in words."""
    return f"{query.kind.value.lower()} join of {query.left.alias} and {query.right.alias}"


@contextmanager
def without_log() -> Iterator[None]:
    """Keep Spark from logging, with the calls in Java, each text that its analysis refuses."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def is_classic(spark: SparkSession) -> bool:
    """Whether a session has a SparkContext; a session of Spark Connect has none."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Describe the jobs that run meanwhile; through Spark Connect they have no description."""
    if not is_classic(spark):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(f"Penstock: {text}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]
