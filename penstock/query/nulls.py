"""Columns that an outer join leaves NULL."""

from __future__ import annotations

from ..expr import ops
from ..expr.node import PRESENT, Expr, Op, node, transform, walk
from ..types import BOOL

#: Operations that are NULL where one of their operands is.
_STRICT = frozenset(
    {Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.ABS, Op.MOD, Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR}
    | {Op.BIT_NOT, Op.SHL, Op.SHR, Op.LT, Op.LE, Op.EQ, Op.PREFIX, Op.NOT, Op.CAST, Op.RAW}
    | {Op.DIV, Op.FUNCTION}
)


def null_supplied(expr: Expr) -> Expr:
    """Make all columns of an expression nullable: the other side may have rows without a match."""

    def rule(current: Expr, args: tuple[Expr, ...]) -> Expr:
        if current.op is Op.COLUMN:
            return node(Op.COLUMN, (), current.type.as_nullable(True), current.attr)
        return ops.remake(current, args)

    return transform(expr, rule)


def supplied_or_null(expr: Expr, side: str) -> Expr:
    """A column as SELECT sees it: NULL where its side has no row.

    A computed column of a subquery, such as ``coalesce(x, 0)`` or a constant, has a value even
    where all columns are NULL, so it asks whether there is a row (see :data:`PRESENT`).
    """
    value = null_supplied(expr)
    if _is_null_without_columns(value):
        return value
    return ops.case([(node(Op.COLUMN, (), BOOL, (side, PRESENT)), value)])


def _is_null_without_columns(expr: Expr) -> bool:
    """Whether an expression is certainly NULL where all its columns are."""
    null: dict[Expr, bool] = {}
    for current in walk(expr):  # without recursion: expressions may be deep
        passes_on = current.op in _STRICT and any(null[arg] for arg in current.args)
        null[current] = passes_on or current.op is Op.COLUMN
    return null[expr]
