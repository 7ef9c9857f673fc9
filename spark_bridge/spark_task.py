"""What Spark tells a task about itself; outside of a task, nothing."""

from __future__ import annotations


def partition() -> int:
    """Number of the task's partition; 0 outside of a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def local_property(key: str) -> str | None:
    """A property of the session or the query that Spark passes on to its tasks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(key)


def task_addresses() -> dict[str, list[str]]:
    """Addresses of the resources that Spark gave the task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    given = {} if context is None else context.resources()
    return {name: list(info.addresses) for name, info in given.items()}
