"""SQL text to a compiled join query."""

from penstock.query.compiler import compile_query
from penstock.query.plan import LEFT, RIGHT, JoinKind, JoinQuery, RowsWindow, Side, TimeWindow

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
