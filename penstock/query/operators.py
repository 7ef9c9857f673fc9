"""The operators of SQL, and the expressions that they make."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ..expr import ops
from ..expr.node import Expr
from .time_rules import TimeRules

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
}
UNARY_OPS: dict[type[exp.Expr], Callable[[Expr], Expr]] = {
    exp.Neg: ops.neg,
    exp.Abs: ops.absolute,
    exp.BitwiseNot: ops.bit_not,
    exp.Not: ops.not_,
}
