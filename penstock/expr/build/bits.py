"""Bit operations, in two's complement of as many bits as it takes."""

from __future__ import annotations

from penstock.expr.build.align import align
from penstock.expr.build.infer import typed
from penstock.expr.build.leaves import ExprTypeError, const
from penstock.expr.node import Expr, Op
from penstock.types import Kind, integer


def _integers(name: str, *args: Expr) -> None:
    for arg in args:
        if arg.type.kind not in (Kind.INT, Kind.NULL):
            raise ExprTypeError(f"{name} needs integers, not {arg.type}")


def _bits(op: Op, a: Expr, b: Expr) -> Expr:
    _integers(op.value, a, b)
    left, right = align((a, b), op.value)
    if left.type.kind is Kind.NULL:
        return left
    return typed(op, (left, right), left.type)


def bit_and(a: Expr, b: Expr) -> Expr:
    return _bits(Op.BIT_AND, a, b)


def bit_or(a: Expr, b: Expr) -> Expr:
    return _bits(Op.BIT_OR, a, b)


def bit_xor(a: Expr, b: Expr) -> Expr:
    return _bits(Op.BIT_XOR, a, b)


def bit_not(a: Expr) -> Expr:
    _integers("~", a)
    if a.type.kind is Kind.NULL:
        return a
    return typed(Op.BIT_NOT, (a,), a.type)


def _shift(op: Op, a: Expr, n: Expr) -> Expr:
    _integers(op.value, a, n)
    if Kind.NULL in (a.type.kind, n.type.kind):
        return const(None, integer(0, 0))
    if n.type.lo < 0 or n.type.hi > 63:
        raise ExprTypeError(
            f"the shift amount may be {n.type.lo} to {n.type.hi}; limit it to 0..63, "
            "for example with `& 63`"
        )
    return typed(op, (a, n), a.type)


def shl(a: Expr, n: Expr) -> Expr:
    return _shift(Op.SHL, a, n)


def shr(a: Expr, n: Expr) -> Expr:
    return _shift(Op.SHR, a, n)
