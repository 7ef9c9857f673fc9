"""The operators of SQL, and the expressions that they make."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ..expr import ops
from ..expr.node import Expr
from .time_rules import TimeRules


def members(condition: exp.Expr) -> list[exp.Expr]:
    """Members of the outermost AND, in order; without recursion, since a chain is a deep tree."""
    conjuncts, left = [], [condition]
    while left:
        tree = left.pop()
        if isinstance(tree, exp.And):
            left += [tree.expression, tree.this]
        elif isinstance(tree, exp.Paren) and isinstance(tree.this, exp.And | exp.EQ | exp.Paren):
            left.append(tree.this)
        else:
            conjuncts.append(tree)
    return conjuncts


def _same(a: Expr, b: Expr) -> Expr:
    """``a <=> b``: NULL is the same as NULL, and nothing is unknown."""
    nulls = ops.is_null(a), ops.is_null(b)
    return ops.case([(ops.or_(*nulls), ops.and_(*nulls))], ops.eq(a, b))


BINARY_OPS: dict[type[exp.Expr], Callable[[Expr, Expr], Expr]] = {
    exp.Mul: ops.mul,
    exp.Mod: ops.mod,
    exp.BitwiseAnd: ops.bit_and,
    exp.BitwiseOr: ops.bit_or,
    exp.BitwiseXor: ops.bit_xor,
    exp.BitwiseLeftShift: ops.shl,
    exp.BitwiseRightShift: ops.shr,
    exp.StartsWith: ops.prefix,
}
JUNCTIONS: dict[type[exp.Expr], Callable[..., Expr]] = {exp.And: ops.and_, exp.Or: ops.or_}
#: Where times of different kinds may meet.
TIME_OPS: dict[type[exp.Expr], Callable[[TimeRules, Expr, Expr], Expr]] = {
    exp.Add: TimeRules.add,
    exp.Sub: TimeRules.sub,
    exp.EQ: lambda rules, a, b: ops.eq(*rules.alike(a, b)),
    exp.NEQ: lambda rules, a, b: ops.ne(*rules.alike(a, b)),
    exp.LT: lambda rules, a, b: ops.lt(*rules.alike(a, b)),
    exp.LTE: lambda rules, a, b: ops.le(*rules.alike(a, b)),
    exp.GT: lambda rules, a, b: ops.lt(*rules.alike(b, a)),
    exp.GTE: lambda rules, a, b: ops.le(*rules.alike(b, a)),
    exp.NullSafeEQ: lambda rules, a, b: _same(*rules.alike(a, b)),
    exp.NullSafeNEQ: lambda rules, a, b: ops.not_(_same(*rules.alike(a, b))),
}
UNARY_OPS: dict[type[exp.Expr], Callable[[Expr], Expr]] = {
    exp.Neg: ops.neg,
    exp.Abs: ops.absolute,
    exp.BitwiseNot: ops.bit_not,
    exp.Not: ops.not_,
}
