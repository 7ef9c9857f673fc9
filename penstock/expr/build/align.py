"""Bringing operands to one kind, scale and unit, so that their values compare directly."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.expr.build.infer import typed
from penstock.expr.build.leaves import ExprTypeError, const
from penstock.expr.node import Expr, Op
from penstock.types import (
    FLOAT64,
    TIMES,
    UNIT_NS,
    Kind,
    Type,
)

EXACT = frozenset({Kind.INT, Kind.DECIMAL})
_AS_THEY_ARE = frozenset({Kind.BOOL, Kind.STRING, Kind.BINARY, Kind.DATE})


def times(expr: Expr, factor: int, dtype: Type) -> Expr:
    """``expr * factor`` with the kind, scale and unit of ``dtype``."""
    if expr.is_const:
        value = None if expr.attr is None else expr.attr * factor
        return const(value, dtype)
    if factor == 1:
        return typed(Op.CAST, (expr,), dtype.within(expr.type.lo, expr.type.hi))
    return typed(Op.MUL, (expr, const(factor)), dtype)


def rescale(expr: Expr, scale: int) -> Expr:
    """The same number as a decimal of ``scale`` digits (not fewer than it has)."""
    if expr.type.kind is Kind.DECIMAL and expr.type.scale == scale:
        return expr
    return times(expr, 10 ** (scale - expr.type.scale), Type(Kind.DECIMAL, scale=scale))


def to_unit(expr: Expr, unit: str, kind: Kind | None = None) -> Expr:
    """The same time or duration counted in a unit that is not coarser."""
    kind = kind or expr.type.kind
    if expr.type.unit == unit and expr.type.kind is kind:
        return expr
    return times(expr, UNIT_NS[expr.type.unit] // UNIT_NS[unit], Type(kind, unit=unit))


def finer(*units: str) -> str:
    return min(units, key=lambda unit: UNIT_NS[unit])


def to_float(expr: Expr) -> Expr:
    if expr.type.kind is Kind.FLOAT64:
        return expr
    if expr.is_const and expr.attr is not None:
        return const(float_of(expr))
    return typed(Op.CAST, (expr,), FLOAT64)


def float_of(expr: Expr) -> float:
    """Value of a numeric constant, correctly rounded."""
    if expr.type.kind is Kind.DECIMAL:
        return int(expr.attr) / 10**expr.type.scale
    return float(expr.attr)


def _widest(kinds: set[Kind]) -> Kind:
    """The kind that several of times, or durations, are compared as."""
    order = (Kind.DURATION, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)
    return next(kind for kind in order if kind in kinds)


def align(args: Sequence[Expr], what: str) -> list[Expr]:
    """Bring operands to one kind, scale and unit so that their values compare directly."""
    kinds = {a.type.kind for a in args} - {Kind.NULL}
    if not kinds:
        return list(args)
    if kinds <= {Kind.INT}:
        done = list(args)
    elif kinds <= EXACT:
        scale = max(a.type.scale for a in args)
        done = [a if a.type.kind is Kind.NULL else rescale(a, scale) for a in args]
    elif kinds == {Kind.FLOAT32}:
        done = list(args)
    elif kinds <= EXACT | {Kind.FLOAT32, Kind.FLOAT64}:
        done = [a if a.type.kind is Kind.NULL else to_float(a) for a in args]
    elif len(kinds) == 1 and kinds <= _AS_THEY_ARE:
        done = list(args)
    elif kinds <= TIMES or kinds == {Kind.DURATION}:
        kind = _widest(kinds)
        unit = finer(*(a.type.unit for a in args if a.type.kind is not Kind.NULL))
        done = [a if a.type.kind is Kind.NULL else to_unit(a, unit, kind) for a in args]
    else:
        names = " and ".join(dict.fromkeys(str(a.type) for a in args))
        hint = ""
        if Kind.DURATION in kinds:
            hint = (
                "; write INTERVAL on both sides, or declare the unit of an integer time column, "
                "which then takes INTERVALs, but no columns of durations: those need timestamps"
            )
        elif kinds & {Kind.STRING, Kind.BINARY}:
            hint = "; compare text with text, or CAST one side"
        raise ExprTypeError(f"{what} of {names} has no meaning{hint}")
    dtype = next(a.type for a in done if a.type.kind is not Kind.NULL)
    return [const(None, dtype) if a.type.kind is Kind.NULL else a for a in done]
