"""Bit operations, in two's complement of as many bits as it takes."""

from __future__ import annotations

from collections.abc import Callable

from penstock.expr import interval
from penstock.expr.build.align import (
    align,
    any_nullable,
    bounded,
    bounds_of,
)
from penstock.expr.build.leaves import ExprTypeError, const
from penstock.expr.node import Expr, Op, node
from penstock.types import (
    Kind,
    integer,
)


def _integers(name: str, *args: Expr) -> None:
    for arg in args:
        if arg.type.kind not in (Kind.INT, Kind.NULL):
            raise ExprTypeError(f"{name} needs integers, not {arg.type}")


def _bits(op: Op, a: Expr, b: Expr, rule: Callable) -> Expr:
    _integers(op.value, a, b)
    left, right = align((a, b), op.value)
    if left.type.kind is Kind.NULL:
        return left
    bounds = rule(bounds_of(left), bounds_of(right))
    return node(op, (left, right), bounded(left.type, bounds, any_nullable(left, right)))


def bit_and(a: Expr, b: Expr) -> Expr:
    return _bits(Op.BIT_AND, a, b, interval.bit_and)


def bit_or(a: Expr, b: Expr) -> Expr:
    return _bits(Op.BIT_OR, a, b, interval.bit_or)


def bit_xor(a: Expr, b: Expr) -> Expr:
    return _bits(Op.BIT_XOR, a, b, interval.bit_xor)


def bit_not(a: Expr) -> Expr:
    _integers("~", a)
    if a.type.kind is Kind.NULL:
        return a
    return node(Op.BIT_NOT, (a,), bounded(a.type, interval.bit_not(bounds_of(a)), a.type.nullable))


def _shift(op: Op, a: Expr, n: Expr, rule: Callable) -> Expr:
    _integers(op.value, a, n)
    if Kind.NULL in (a.type.kind, n.type.kind):
        return const(None, integer(0, 0))
    if n.type.lo < 0 or n.type.hi > 63:
        raise ExprTypeError(
            f"the shift amount may be {n.type.lo} to {n.type.hi}; limit it to 0..63, "
            "for example with `& 63`"
        )
    bounds = rule(bounds_of(a), bounds_of(n))
    return node(op, (a, n), bounded(a.type, bounds, any_nullable(a, n)))


def shl(a: Expr, n: Expr) -> Expr:
    return _shift(Op.SHL, a, n, interval.shl)


def shr(a: Expr, n: Expr) -> Expr:
    return _shift(Op.SHR, a, n, interval.shr)
