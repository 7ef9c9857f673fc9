"""Facts that Spark knows about the running task; outside of a task, none."""

from __future__ import annotations

from typing import Any


def _context() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()


def partition() -> int:
    """Number of the task's partition; 0 outside of a task."""
    context = _context()
    return 0 if context is None else context.partitionId()


def local_property(key: str) -> str | None:
    """A property of the session or the query that Spark passes on to its tasks."""
    context = _context()
    return None if context is None else context.getLocalProperty(key)


def task_addresses() -> dict[str, list[str]]:
    """Addresses of the resources that Spark gave the task."""
    context = _context()
    resources = {} if context is None else context.resources()
    return {name: list(info.addresses) for name, info in resources.items()}
