"""Arithmetic on numbers, times and durations."""

from __future__ import annotations

from collections.abc import Callable

from penstock.expr import interval
from penstock.expr.build.align import (
    EXACT,
    TIMES,
    align,
    any_nullable,
    bounded,
    bounds_of,
    finer,
    to_unit,
)
from penstock.expr.build.leaves import ExprTypeError, const
from penstock.expr.node import Expr, Op, node
from penstock.types import (
    Kind,
    Type,
)


def add(a: Expr, b: Expr) -> Expr:
    moved = _move_time(a, b, 1) or _move_time(b, a, 1)
    return moved or _arithmetic(Op.ADD, a, b, interval.add)


def sub(a: Expr, b: Expr) -> Expr:
    if a.type.kind in TIMES and b.type.kind in TIMES:
        left, right = align((a, b), "the difference")
        bounds = interval.sub(bounds_of(left), bounds_of(right))
        unit = left.type.unit
        return node(
            Op.SUB,
            (left, right),
            bounded(Type(Kind.DURATION, unit=unit), bounds, any_nullable(a, b)),
        )
    return _move_time(a, b, -1) or _arithmetic(Op.SUB, a, b, interval.sub)


def _move_time(time: Expr, by: Expr, sign: int) -> Expr | None:
    """``time ± duration``, or a date moved by whole days; None if it is neither."""
    if time.type.kind not in TIMES:
        return None
    if time.type.kind is Kind.DATE and by.type.kind is Kind.INT:
        unit, kind = "D", Kind.DATE
    elif by.type.kind is Kind.DURATION:
        unit = finer(time.type.unit, by.type.unit)
        kind = time.type.kind if unit == "D" else Kind.TIMESTAMP
        by = to_unit(by, unit)
    elif by.type.kind is Kind.INT:
        raise ExprTypeError(
            f"a {time.type} moves by an INTERVAL, not by an integer; write INTERVAL n SECONDS"
        )
    else:
        return None
    time = to_unit(time, unit, kind)
    rule, op = (interval.add, Op.ADD) if sign > 0 else (interval.sub, Op.SUB)
    bounds = rule(bounds_of(time), bounds_of(by))
    return node(op, (time, by), bounded(Type(kind, unit=unit), bounds, any_nullable(time, by)))


def _arithmetic(op: Op, a: Expr, b: Expr, rule: Callable) -> Expr:
    name = {Op.ADD: "the sum", Op.SUB: "the difference", Op.MOD: "the remainder"}[op]
    allowed = EXACT | {Kind.FLOAT32, Kind.FLOAT64, Kind.DURATION, Kind.NULL}
    for arg in (a, b):
        if arg.type.kind not in allowed:
            raise ExprTypeError(f"{name} needs numbers, not {arg.type}")
    left, right = align((a, b), name)
    nullable = any_nullable(left, right)
    if op is Op.MOD and right.type.is_integral:
        nullable = nullable or right.type.lo <= 0 <= right.type.hi
    if op is Op.MOD and right.type.is_float:
        nullable = nullable or not (right.is_const and right.attr)
    if not left.type.is_integral:
        return node(op, (left, right), left.type.as_nullable(nullable))
    return node(
        op, (left, right), bounded(left.type, rule(bounds_of(left), bounds_of(right)), nullable)
    )


def mod(a: Expr, b: Expr) -> Expr:
    return _arithmetic(Op.MOD, a, b, interval.mod)


def mul(a: Expr, b: Expr) -> Expr:
    if a.type.kind is Kind.INT and b.type.kind is Kind.DURATION:
        a, b = b, a
    if a.type.kind is Kind.DURATION and b.type.kind is Kind.INT:
        bounds = interval.mul(bounds_of(a), bounds_of(b))
        return node(Op.MUL, (a, b), bounded(a.type, bounds, any_nullable(a, b)))
    for arg in (a, b):
        if arg.type.kind not in EXACT | {Kind.FLOAT32, Kind.FLOAT64, Kind.NULL}:
            raise ExprTypeError(f"a product needs numbers, not {arg.type}")
    if not (a.type.kind in EXACT and b.type.kind in EXACT):
        left, right = align((a, b), "the product")
        if not left.type.is_integral:
            return node(Op.MUL, (left, right), left.type.as_nullable(any_nullable(left, right)))
        a, b = left, right
    scale = a.type.scale + b.type.scale
    kind = Kind.DECIMAL if Kind.DECIMAL in (a.type.kind, b.type.kind) else Kind.INT
    bounds = interval.square(bounds_of(a)) if a is b else interval.mul(bounds_of(a), bounds_of(b))
    return node(Op.MUL, (a, b), bounded(Type(kind, scale=scale), bounds, any_nullable(a, b)))


def _signed_number(expr: Expr, name: str) -> None:
    if expr.type.kind not in EXACT | {Kind.FLOAT32, Kind.FLOAT64, Kind.DURATION, Kind.NULL}:
        raise ExprTypeError(f"{name} needs a number, not {expr.type}")


def neg(a: Expr) -> Expr:
    _signed_number(a, "unary minus")
    if a.is_const and a.attr is not None:
        return const(-a.attr, a.type)
    if not a.type.is_integral:
        return node(Op.NEG, (a,), a.type)
    return node(Op.NEG, (a,), bounded(a.type, interval.neg(bounds_of(a)), a.type.nullable))


def absolute(a: Expr) -> Expr:
    _signed_number(a, "abs")
    if not a.type.is_integral:
        return node(Op.ABS, (a,), a.type)
    return node(Op.ABS, (a,), bounded(a.type, interval.absolute(bounds_of(a)), a.type.nullable))


def least(*args: Expr) -> Expr:
    return _extreme(Op.LEAST, args, interval.least)


def greatest(*args: Expr) -> Expr:
    return _extreme(Op.GREATEST, args, interval.greatest)


def _extreme(op: Op, args: tuple[Expr, ...], rule: Callable) -> Expr:
    """LEAST and GREATEST skip NULL: the result is NULL only where every argument is."""
    if len(args) < 2:
        raise ExprTypeError(f"{op.value} needs at least two arguments")
    done = align(args, op.value)
    if done[0].type.kind in (Kind.STRING, Kind.BINARY, Kind.BOOL, Kind.NULL):
        raise ExprTypeError(f"{op.value} needs numbers or times, not {done[0].type}")
    nullable = all(a.type.nullable for a in done)
    if not done[0].type.is_integral:
        return node(op, tuple(done), done[0].type.as_nullable(nullable))
    always = [a for a in done if not a.type.nullable]
    bounds = bounds_of(done[0])
    for arg in done[1:]:
        bounds = rule(bounds, bounds_of(arg))
    for arg in done:  # a skipped NULL leaves any other argument as the result
        if len(always) < len(done):
            bounds = interval.hull(bounds, bounds_of(arg))
    return node(op, tuple(done), bounded(done[0].type, bounds, nullable))
