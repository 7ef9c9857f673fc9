"""Constant folding: constants, identities, and comparisons that the bounds already decide."""

from __future__ import annotations

from penstock.errors import DataError
from penstock.expr import build
from penstock.expr.evaluate import evaluate
from penstock.expr.node import Expr, Op, transform
from penstock.types import BOOL, Kind

_KEEP = frozenset({Op.CONST, Op.COLUMN, Op.KEY, Op.AND, Op.OR, Op.NOT, Op.IS_NULL})


def fold(expr: Expr) -> Expr:
    """Same value for every row, with fewer nodes."""
    return transform(expr, _fold_node)


def _fold_node(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    if expr.op is Op.CASE:
        return _fold_case(expr, args)
    rebuilt = build.remake(expr, args)
    if rebuilt.op in _KEEP:
        return rebuilt
    if all(a.is_const for a in args):
        try:
            return build.const(evaluate(rebuilt, {}), expr.type)
        except DataError:  # a CAST that overflows is an error only in a row that meets it
            return rebuilt
    if expr.op in (Op.LT, Op.LE, Op.EQ):
        return _fold_comparison(rebuilt)
    if expr.type.is_integral:
        return _fold_identity(rebuilt)
    return rebuilt


def _fold_case(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    pairs = []
    otherwise = args[-1]
    for condition, value in zip(args[:-1:2], args[1::2], strict=False):
        if condition.is_const and condition.attr is not True:
            continue
        if condition.is_const:
            otherwise = value
            break
        pairs.append((condition, value))
    if not pairs:
        return otherwise
    flat = tuple(x for pair in pairs for x in pair)
    return build.remake(expr, (*flat, otherwise))


def _fold_comparison(expr: Expr) -> Expr:
    """Decide a comparison of integers from the operands' bounds, if neither may be NULL."""
    a, b = expr.args
    if (a.is_const and a.attr is None) or (b.is_const and b.attr is None):
        return build.const(None, BOOL)
    if not a.type.is_integral or expr.type.nullable:
        return expr
    low, high = a.type, b.type
    if expr.op is Op.LT:
        yes, no = low.hi < high.lo, low.lo >= high.hi
    elif expr.op is Op.LE:
        yes, no = low.hi <= high.lo, low.lo > high.hi
    else:
        yes, no = a is b, low.hi < high.lo or low.lo > high.hi
    return build.TRUE if yes else build.FALSE if no else expr


def _fold_identity(expr: Expr) -> Expr:
    args = expr.args
    if any(a.is_const and a.attr is None for a in args) and expr.op not in (
        Op.LEAST,
        Op.GREATEST,
    ):
        return build.const(None, expr.type)
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
                return build.const(0, expr.type)
    return expr


def _as(kept: Expr, whole: Expr) -> Expr:
    """``kept`` in the place of ``whole``, if it means the same kind of value."""
    a, b = kept.type, whole.type
    return kept if (a.kind, a.scale, a.unit) == (b.kind, b.scale, b.unit) else whole
