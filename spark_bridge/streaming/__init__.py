"""Joins of streaming DataFrames, micro-batch by micro-batch; see docs/spark-streaming.md.

Rows enter versioned Arrow files, one JSON file per batch says which of them a
join reads and what was promised, and what leaves is a function of that file alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .join import StreamingJoin, stream

__all__ = ["StreamingJoin", "stream"]


def __getattr__(name: str) -> Any:
    # Tasks import parts of this room without PySpark's DataFrames.
    if name in __all__:
        from . import join

        return getattr(join, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
