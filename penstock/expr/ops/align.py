"""Bring operands to one kind, scale and unit, so that their values compare directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...types import FLOAT64, FLOATING, TEXTUAL, TIMES, UNIT_NS, Kind, Type
from ..node import Expr, Op
from .infer import typed
from .leaves import ExprTypeError, const

EXACT = frozenset({Kind.INT, Kind.DECIMAL})
NUMBERS = EXACT | FLOATING
_AS_THEY_ARE = frozenset({Kind.INT, Kind.FLOAT32, Kind.BOOL, Kind.STRING, Kind.BINARY, Kind.DATE})


def times(expr: Expr, factor: int, dtype: Type) -> Expr:
    """Multiply; the result has the kind, scale and unit of ``dtype``."""
    if expr.is_const:
        value = None if expr.attr is None else expr.attr * factor
        return const(value, dtype)
    if factor == 1:
        return typed(Op.CAST, (expr,), dtype.within(expr.type.lo, expr.type.hi))
    return typed(Op.MUL, (expr, const(factor)), dtype)


def rescale(expr: Expr, scale: int) -> Expr:
    """Write a number as a decimal of ``scale`` digits, not fewer than it has."""
    if expr.type.kind is Kind.DECIMAL and expr.type.scale == scale:
        return expr
    return times(expr, 10 ** (scale - expr.type.scale), Type(Kind.DECIMAL, scale=scale))


def to_unit(expr: Expr, unit: str, kind: Kind | None = None) -> Expr:
    """Count a time or duration in another unit, which is not coarser."""
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
    """The value of a numeric constant, correctly rounded."""
    if expr.type.kind is Kind.DECIMAL:
        return int(expr.attr) / 10**expr.type.scale
    return float(expr.attr)


def align(args: Sequence[Expr], what: str) -> list[Expr]:
    """Bring operands to one kind, scale and unit so that their values compare directly."""
    known = [a for a in args if a.type.kind is not Kind.NULL]
    if not known:
        return list(args)
    convert = _conversion([a.type for a in known])
    if convert is None:
        raise _unlike([a.type for a in args], what)
    if len(known) == len(args):
        return [convert(a) for a in args]
    dtype = convert(known[0]).type
    return [const(None, dtype) if a.type.kind is Kind.NULL else convert(a) for a in args]


def _conversion(types: Sequence[Type]) -> Callable[[Expr], Expr] | None:
    """How values of these types become comparable; None if they cannot."""
    kinds = {dtype.kind for dtype in types}
    if len(kinds) == 1 and kinds <= _AS_THEY_ARE:
        return lambda expr: expr
    if kinds <= EXACT:
        scale = max(dtype.scale for dtype in types)
        return lambda expr: rescale(expr, scale)
    if kinds <= NUMBERS:
        return to_float
    if kinds <= TIMES or kinds == {Kind.DURATION}:
        order = (Kind.DURATION, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)
        kind, unit = next(k for k in order if k in kinds), finer(*(dtype.unit for dtype in types))
        return lambda expr: to_unit(expr, unit, kind)
    return None


def _unlike(types: Sequence[Type], what: str) -> ExprTypeError:
    kinds = {dtype.kind for dtype in types}
    names = " and ".join(dict.fromkeys(map(str, types)))
    hint = ""
    if Kind.DURATION in kinds:
        hint = (
            "; write INTERVAL on both sides, or declare the unit of an integer time column, "
            "which then takes INTERVALs, but no columns of durations: those need timestamps"
        )
    elif kinds & TEXTUAL:
        hint = "; compare text with text, or CAST one side"
    return ExprTypeError(f"{what} of {names} has no meaning{hint}")
