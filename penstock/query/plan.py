"""A compiled join query: two filtered sides, a window, a predicate, and what to output."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.expr.node import Expr, Op, walk
from penstock.query.window import RowsWindow, TimeWindow, Window

LEFT, RIGHT = "l", "r"


def other(side: str) -> str:
    """The opposite side."""
    return RIGHT if side == LEFT else LEFT


@dataclass(frozen=True)
class Side:
    """One input of the join.

    Parameters
    ----------
    side : str
        "l" or "r": the first component of its columns' names in expressions.
    alias, table : str
        Name in the query, and the base table that feeds it.
    filter : Expr
        Rows for which it is not TRUE are left out before the window.
    time : Expr or None
        Event time as an integer in the window's unit; None for ROWS in order of arrival.
    unit : str
        Unit of the time column itself, "" for plain integers.
    """

    side: str
    alias: str
    table: str
    filter: Expr
    time: Expr | None
    unit: str = ""


@dataclass(frozen=True)
class JoinQuery:
    """A query ready for any device.

    Parameters
    ----------
    text : str
        The SQL.
    left, right : Side
    window : TimeWindow or RowsWindow
    predicate : Expr
        What is left of the join condition beside the window; a pair joins where it is TRUE.
    select : tuple of (str, Expr)
        Output columns, over columns of both sides.
    scales : tuple of ((side, column), digits)
        Float columns declared as decimals, see ``scale`` of :func:`penstock.query.compile`.
    """

    text: str
    left: Side
    right: Side
    window: Window
    predicate: Expr
    select: tuple[tuple[str, Expr], ...]
    scales: tuple[tuple[tuple[str, str], int], ...] = ()

    @property
    def is_rows(self) -> bool:
        return isinstance(self.window, RowsWindow)

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.left, self.right

    @property
    def names(self) -> dict[str, str]:
        """What the query calls each side."""
        return {side.side: side.alias for side in self.sides}

    def side(self, name: str) -> Side:
        return self.left if name == LEFT else self.right

    def columns_of(self, side: str) -> tuple[str, ...]:
        """Base-table columns that this side needs, sorted."""
        return tuple(sorted({*self.join_columns_of(side), *self.output_columns_of(side)}))

    def join_columns_of(self, side: str) -> tuple[str, ...]:
        """Base-table columns of this side that decide which pairs join, sorted."""
        own = self.side(side)
        roots = [own.filter, self.predicate]
        if own.time is not None:
            roots.append(own.time)
        return tuple(sorted({c for root in roots for s, c in columns(root) if s == side}))

    def output_columns_of(self, side: str) -> tuple[str, ...]:
        """Base-table columns of this side that the output needs, sorted."""
        found = {c for _, e in self.select for s, c in columns(e) if s == side}
        return tuple(sorted(found))

    def scale_of(self, side: str) -> dict[str, int]:
        return {column: digits for (s, column), digits in self.scales if s == side}


def columns(expr: Expr) -> set[tuple[str, str]]:
    """(side, name) of every column below an expression."""
    return {leaf.attr for leaf in walk(expr) if leaf.op is Op.COLUMN}


__all__ = [
    "LEFT",
    "RIGHT",
    "JoinQuery",
    "RowsWindow",
    "Side",
    "TimeWindow",
    "Window",
    "columns",
    "other",
]
