"""SQL text to a compiled join query."""

from ..plan.query import LEFT, RIGHT, JoinKind, JoinQuery, RowsWindow, Side, TimeWindow
from .compiler import compile_query

__all__ = [
    "LEFT",
    "RIGHT",
    "JoinKind",
    "JoinQuery",
    "RowsWindow",
    "Side",
    "TimeWindow",
    "compile_query",
]
