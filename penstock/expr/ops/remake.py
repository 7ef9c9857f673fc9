"""Repeat the operation of a node on other operands, for rewrites.

Nothing is aligned, rescaled or checked here. The functions that SQL calls have done that, and doing
it twice would multiply a value by its scale again. Rebuilding a node on its own operands gives the
node itself: ``remake(n, n.args) is n``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..node import Expr, Op, node, transform
from .logic import and_, is_null, not_, or_
from .typed_nodes import is_nullable, keeps_raw, typed

_LEAVES = frozenset({Op.CONST, Op.COLUMN, Op.KEY})
_LOGIC: dict[Op, Callable[..., Expr]] = {
    Op.AND: and_,
    Op.OR: or_,
    Op.NOT: not_,
    Op.IS_NULL: is_null,
}


def remake(expr: Expr, args: Sequence[Expr]) -> Expr:
    """Repeat the operation of ``expr`` on other aligned operands, and infer its bounds anew."""
    if expr.op in _LEAVES:
        return expr
    if expr.op in _LOGIC:
        return _LOGIC[expr.op](*args)
    like = expr.type
    if expr.op is Op.CAST and keeps_raw(expr.args[0].type, like):
        # The CAST never overflows, so its bounds check nothing: they follow the operand's.
        like = like.within(args[0].type.lo, args[0].type.hi)
    rebuilt = typed(expr.op, args, like, expr.attr)
    if not expr.type.nullable and is_nullable(expr.op, expr.args):
        return _without_null(rebuilt)  # as rewrites have declared it
    return rebuilt


def over_columns(expr: Expr, column: Callable[[Expr], Expr]) -> Expr:
    """Repeat an expression with what ``column`` gives in the place of each column."""
    return transform(
        expr,
        lambda current, args: column(current) if current.op is Op.COLUMN else remake(current, args),
    )


def two_valued(expr: Expr, args: Sequence[Expr]) -> Expr:
    """Repeat the operation on operands that are never NULL; the result is not nullable, either.

    A remainder by zero is then an arbitrary number, which a guard beside it ignores.
    """
    return _without_null(remake(expr, args))


def _without_null(expr: Expr) -> Expr:
    return node(expr.op, expr.args, expr.type.as_nullable(False), expr.attr)
