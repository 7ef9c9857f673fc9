"""Comparisons, conditions and choices."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.expr.build.align import align
from penstock.expr.build.infer import typed
from penstock.expr.build.leaves import FALSE, TRUE, ExprTypeError, const
from penstock.expr.node import Expr, Op
from penstock.types import BOOL, Kind


def lt(a: Expr, b: Expr) -> Expr:
    return _compare(Op.LT, a, b)


def le(a: Expr, b: Expr) -> Expr:
    return _compare(Op.LE, a, b)


def eq(a: Expr, b: Expr) -> Expr:
    return _compare(Op.EQ, a, b)


def ne(a: Expr, b: Expr) -> Expr:
    return not_(eq(a, b))


def _compare(op: Op, a: Expr, b: Expr) -> Expr:
    left, right = align((a, b), f"`{op.value}`")
    if op is not Op.EQ and left.type.kind in (Kind.STRING, Kind.BINARY, Kind.BOOL):
        raise ExprTypeError(
            f"`{op.value}` does not order {left.type} values; text has equality and prefix"
        )
    return typed(op, (left, right), BOOL)


def order(op: Op, a: Expr, b: Expr) -> Expr:
    """A comparison of aligned operands of any kind; text is ordered by bytes (rewrites only)."""
    return typed(op, (a, b), BOOL)


def prefix(text: Expr, start: Expr) -> Expr:
    """Whether ``text`` starts with ``start``."""
    left, right = align((text, start), "startswith")
    if not left.type.is_text:
        raise ExprTypeError(f"startswith needs text, not {left.type}")
    return typed(Op.PREFIX, (left, right), BOOL)


def _booleans(name: str, args: Sequence[Expr]) -> list[Expr]:
    done = []
    for arg in args:
        if arg.type.kind is Kind.NULL:
            done.append(const(None, BOOL))
        elif arg.type.kind is not Kind.BOOL:
            raise ExprTypeError(f"{name} needs conditions, not {arg.type}")
        else:
            done.append(arg)
    return done


def and_(*args: Expr) -> Expr:
    return _junction(Op.AND, "AND", args, TRUE, FALSE)


def or_(*args: Expr) -> Expr:
    return _junction(Op.OR, "OR", args, FALSE, TRUE)


def _junction(op: Op, name: str, args: Sequence[Expr], unit: Expr, zero: Expr) -> Expr:
    """Flattened AND / OR without its unit and without repeated members."""
    flat: dict[Expr, None] = {}
    for arg in _booleans(name, args):
        for part in arg.args if arg.op is op else (arg,):
            if part is zero:
                return zero
            if part is not unit:
                flat[part] = None
    parts = tuple(flat)
    if not parts:
        return unit
    if len(parts) == 1:
        return parts[0]
    return typed(op, parts, BOOL)


def not_(a: Expr) -> Expr:
    (arg,) = _booleans("NOT", (a,))
    if arg.op is Op.NOT:
        return arg.args[0]
    if arg.is_const:
        return const(None if arg.attr is None else not arg.attr, BOOL)
    return typed(Op.NOT, (arg,), BOOL)


def is_null(a: Expr) -> Expr:
    if not a.type.nullable:
        return FALSE
    if a.is_const:
        return TRUE
    return typed(Op.IS_NULL, (a,), BOOL)


def case(pairs: Sequence[tuple[Expr, Expr]], otherwise: Expr | None = None) -> Expr:
    """``CASE WHEN condition THEN value ... ELSE otherwise END``."""
    conditions = _booleans("CASE WHEN", [c for c, _ in pairs])
    last = const(None) if otherwise is None else otherwise
    values = align([*(v for _, v in pairs), last], "CASE")
    args = [x for pair in zip(conditions, values[:-1], strict=True) for x in pair]
    return typed(Op.CASE, (*args, values[-1]), values[0].type)
