"""Figures of streaming joins in Spark: counted in the tasks, reported per micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .listener import JoinListener, watch

__all__ = ["JoinListener", "watch"]


def __getattr__(name: str) -> Any:
    # Tasks count without PySpark's streaming API.
    if name in __all__:
        from . import listener

        return getattr(listener, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
