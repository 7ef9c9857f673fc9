"""Columns that an outer join leaves NULL."""

from __future__ import annotations

from penstock.expr import build
from penstock.expr.node import Expr, Op, node, transform


def null_supplied(expr: Expr) -> Expr:
    """An expression over a side whose columns are NULL where a row of the other side is alone."""
    return transform(expr, _nullable)


def _nullable(current: Expr, args: tuple[Expr, ...]) -> Expr:
    if current.op is Op.COLUMN:
        return node(Op.COLUMN, (), current.type.as_nullable(True), current.attr)
    return build.remake(current, args) if args != current.args else current
