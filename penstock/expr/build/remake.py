"""The operation of a node on other arguments, for rewrites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.expr.build.arithmetic import absolute, add, greatest, least, mod, mul, neg, sub
from penstock.expr.build.bits import bit_and, bit_not, bit_or, bit_xor, shl, shr
from penstock.expr.build.casts import raw_factor
from penstock.expr.build.logic import and_, case, is_null, not_, or_, order, prefix
from penstock.expr.node import Expr, Op, node
from penstock.types import (
    Type,
    integer,
)

_MAKERS: dict[Op, Callable[..., Expr]] = {
    Op.ADD: add,
    Op.SUB: sub,
    Op.MUL: mul,
    Op.NEG: neg,
    Op.ABS: absolute,
    Op.LEAST: least,
    Op.GREATEST: greatest,
    Op.MOD: mod,
    Op.BIT_AND: bit_and,
    Op.BIT_OR: bit_or,
    Op.BIT_XOR: bit_xor,
    Op.BIT_NOT: bit_not,
    Op.SHL: shl,
    Op.SHR: shr,
    Op.AND: and_,
    Op.OR: or_,
    Op.NOT: not_,
    Op.PREFIX: prefix,
    Op.IS_NULL: is_null,
}


def remake(expr: Expr, args: Sequence[Expr]) -> Expr:
    """The operation of ``expr`` on other arguments, its type and bounds inferred anew."""
    if expr.op in (Op.CONST, Op.COLUMN, Op.KEY):
        return expr
    if expr.op in (Op.LT, Op.LE, Op.EQ):
        return order(expr.op, *args)
    if expr.op is Op.CASE:
        return case(list(zip(args[:-1:2], args[1::2], strict=False)), args[-1])
    if expr.op is Op.RAW:
        (arg,) = args
        return node(Op.RAW, (arg,), integer(arg.type.lo, arg.type.hi, nullable=arg.type.nullable))
    if expr.op is Op.CAST:
        return _recast(args[0], expr.type)
    return _MAKERS[expr.op](*args)


def _recast(arg: Expr, to: Type) -> Expr:
    if arg.type.is_integral and to.is_integral and raw_factor(arg.type, to) == 1:
        to = replace(to, lo=arg.type.lo, hi=arg.type.hi)
    return node(Op.CAST, (arg,), to.as_nullable(arg.type.nullable))
