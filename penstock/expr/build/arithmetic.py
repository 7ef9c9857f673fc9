"""Arithmetic on numbers, times and durations."""

from __future__ import annotations

from penstock.expr.build.align import EXACT, align, finer, to_unit
from penstock.expr.build.infer import typed
from penstock.expr.build.leaves import ExprTypeError, const
from penstock.expr.node import Expr, Op
from penstock.types import TIMES, Kind, Type


def add(a: Expr, b: Expr) -> Expr:
    moved = _move_time(a, b, 1) or _move_time(b, a, 1)
    return moved or _arithmetic(Op.ADD, a, b)


def sub(a: Expr, b: Expr) -> Expr:
    if a.type.kind in TIMES and b.type.kind in TIMES:
        left, right = align((a, b), "the difference")
        return typed(Op.SUB, (left, right), Type(Kind.DURATION, unit=left.type.unit))
    return _move_time(a, b, -1) or _arithmetic(Op.SUB, a, b)


def _move_time(time: Expr, by: Expr, sign: int) -> Expr | None:
    """``time ± duration``, or a date moved by whole days; None if it is neither."""
    if time.type.kind not in TIMES:
        return None
    if time.type.kind is Kind.DATE and by.type.kind is Kind.INT:
        unit, kind = "D", Kind.DATE
    elif by.type.kind is Kind.DURATION:
        unit = finer(time.type.unit, by.type.unit)
        is_date = time.type.kind is Kind.DATE and unit != "D"
        kind = Kind.TIMESTAMP if is_date else time.type.kind
        by = to_unit(by, unit)
    elif by.type.kind is Kind.INT:
        raise ExprTypeError(
            f"a {time.type} moves by an INTERVAL, not by an integer; write INTERVAL n SECONDS"
        )
    else:
        return None
    time = to_unit(time, unit, kind)
    return typed(Op.ADD if sign > 0 else Op.SUB, (time, by), Type(kind, unit=unit))


def _arithmetic(op: Op, a: Expr, b: Expr) -> Expr:
    name = {Op.ADD: "the sum", Op.SUB: "the difference", Op.MOD: "the remainder"}[op]
    allowed = EXACT | {Kind.FLOAT32, Kind.FLOAT64, Kind.DURATION, Kind.NULL}
    for arg in (a, b):
        if arg.type.kind not in allowed:
            raise ExprTypeError(f"{name} needs numbers, not {arg.type}")
    left, right = align((a, b), name)
    return typed(op, (left, right), left.type)


def mod(a: Expr, b: Expr) -> Expr:
    return _arithmetic(Op.MOD, a, b)


def mul(a: Expr, b: Expr) -> Expr:
    if a.type.kind is Kind.INT and b.type.kind is Kind.DURATION:
        a, b = b, a
    if a.type.kind is Kind.DURATION and b.type.kind is Kind.INT:
        a = to_unit(a, "s") if a.type.unit == "D" else a  # no longer an interval of days alone
        return typed(Op.MUL, (a, b), a.type)
    for arg in (a, b):
        if arg.type.kind not in EXACT | {Kind.FLOAT32, Kind.FLOAT64, Kind.NULL}:
            raise ExprTypeError(f"a product needs numbers, not {arg.type}")
    if not (a.type.kind in EXACT and b.type.kind in EXACT):
        left, right = align((a, b), "the product")
        if not left.type.is_integral:
            return typed(Op.MUL, (left, right), left.type)
        a, b = left, right
    scale = a.type.scale + b.type.scale
    kind = Kind.DECIMAL if Kind.DECIMAL in (a.type.kind, b.type.kind) else Kind.INT
    return typed(Op.MUL, (a, b), Type(kind, scale=scale))


def _signed_number(expr: Expr, name: str) -> None:
    if expr.type.kind not in EXACT | {Kind.FLOAT32, Kind.FLOAT64, Kind.DURATION, Kind.NULL}:
        raise ExprTypeError(f"{name} needs a number, not {expr.type}")


def neg(a: Expr) -> Expr:
    _signed_number(a, "unary minus")
    if a.is_const and a.attr is not None:
        return const(-a.attr, a.type)
    return typed(Op.NEG, (a,), a.type)


def absolute(a: Expr) -> Expr:
    _signed_number(a, "abs")
    return typed(Op.ABS, (a,), a.type)


def least(*args: Expr) -> Expr:
    return _extreme(Op.LEAST, args)


def greatest(*args: Expr) -> Expr:
    return _extreme(Op.GREATEST, args)


def _extreme(op: Op, args: tuple[Expr, ...]) -> Expr:
    """LEAST and GREATEST skip NULL: the result is NULL only where every argument is."""
    if len(args) < 2:
        raise ExprTypeError(f"{op.value} needs at least two arguments")
    done = align(args, op.value)
    if done[0].type.kind in (Kind.STRING, Kind.BINARY, Kind.BOOL, Kind.NULL):
        raise ExprTypeError(f"{op.value} needs numbers or times, not {done[0].type}")
    return typed(op, done, done[0].type)
