"""Simplify expressions: constants, identities, and comparisons that the bounds already decide."""

from __future__ import annotations

from ..errors import DataError
from ..expr import ops
from ..expr.columns import evaluate
from ..expr.node import DIVISIONS, Expr, Op, transform
from ..types import BOOL, Kind

_KEEP = frozenset({Op.CONST, Op.COLUMN, Op.KEY, Op.AND, Op.OR, Op.NOT, Op.IS_NULL})


def simplify(expr: Expr) -> Expr:
    """The same value for every row, with fewer nodes."""
    return transform(expr, _simplify_node)


def _simplify_node(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    if expr.op is Op.CASE:
        return _simplify_case(expr, args)
    rebuilt = ops.remake(expr, args)
    if rebuilt.op in _KEEP:
        return rebuilt
    if all(a.is_const for a in args):
        try:
            value = evaluate(rebuilt)
        except DataError:  # a CAST that overflows is an error only in a row that meets it
            return rebuilt
        if value is None and expr.op in DIVISIONS:
            return rebuilt  # so is, in ANSI mode, a division by 0
        return ops.const(value, expr.type)
    if expr.op in (Op.LT, Op.LE, Op.EQ):
        return _decide_comparison(rebuilt)
    return _drop_identity(rebuilt) if expr.type.is_integral else rebuilt


def _simplify_case(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    """CASE without branches that are never taken, and those after one that always is."""
    kept: list[Expr] = []
    otherwise = args[-1]
    for condition, value in zip(args[:-1:2], args[1::2], strict=False):
        if not condition.is_const:
            kept += (condition, value)
        elif condition.attr is True and expr.attr is None:
            otherwise = value
            break
    return ops.remake(expr, (*kept, otherwise)) if kept else otherwise


def _decide_comparison(expr: Expr) -> Expr:
    """Decide a comparison of integers from the operands' bounds, if neither may be NULL."""
    a, b = expr.args
    if a.is_null_const or b.is_null_const:
        return ops.const(None, BOOL)
    if not a.type.is_integral or expr.type.nullable:
        return expr
    low, high = a.type, b.type
    if expr.op is Op.LT:
        yes, no = low.hi < high.lo, low.lo >= high.hi
    elif expr.op is Op.LE:
        yes, no = low.hi <= high.lo, low.lo > high.hi
    else:
        yes, no = a is b, low.hi < high.lo or low.lo > high.hi
    return ops.TRUE if yes else ops.FALSE if no else expr


def _drop_identity(expr: Expr) -> Expr:
    """NULL for arithmetic with NULL, and an operand where the other one leaves it as it is."""
    args = expr.args
    if any(a.is_null_const for a in args) and expr.op not in (Op.LEAST, Op.GREATEST):
        return ops.const(None, expr.type)
    if len(args) != 2:
        return expr
    a, b = args
    zero_a, zero_b = (x.is_const and x.attr == 0 for x in args)
    same = expr.type.kind in (Kind.INT, Kind.DECIMAL, Kind.DURATION)
    if expr.op is Op.ADD and same and (zero_a or zero_b):
        return _as(b if zero_a else a, expr)
    if expr.op in (Op.SUB, Op.SHL, Op.SHR) and same and zero_b:
        return _as(a, expr)
    if expr.op is Op.MUL:
        for x, y in ((a, b), (b, a)):
            if x.is_const and x.attr == 1:
                return _as(y, expr)
            if x.is_const and x.attr == 0 and not y.type.nullable:
                return ops.const(0, expr.type)
    return expr


def _as(kept: Expr, whole: Expr) -> Expr:
    """``kept`` in the place of ``whole``, if it means the same kind of value."""
    a, b = kept.type, whole.type
    return kept if (a.kind, a.scale, a.unit) == (b.kind, b.scale, b.unit) else whole
