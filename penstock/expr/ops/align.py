"""Bring operands to one kind, scale and unit, so that their values compare directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...types import FLOAT64, FLOATING, TEXTUAL, TIMES, UNIT_NS, Kind, Type
from ..node import Expr, Op
from .decimals import EXACT, common_type, in_type
from .typed_nodes import ExprTypeError, const, times, typed

NUMBERS = EXACT | FLOATING
_AS_THEY_ARE = frozenset({Kind.INT, Kind.FLOAT32, Kind.BOOL, Kind.STRING, Kind.BINARY, Kind.DATE})


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


def align(args: Sequence[Expr], operation: str, *, as_written: bool = False) -> list[Expr]:
    """Bring operands to one kind, scale and unit so that their values compare directly.

    ``as_written`` counts the digits of a constant integer beside a decimal, not those of its type.
    """
    known = [a for a in args if a.type.kind is not Kind.NULL]
    if not known:
        return list(args)
    convert = _conversion(known, as_written)
    if convert is None:
        raise _unlike([a.type for a in args], operation)
    if len(known) == len(args):
        return [convert(a) for a in args]
    dtype = convert(known[0]).type
    return [const(None, dtype) if a.type.kind is Kind.NULL else convert(a) for a in args]


def choice_type(values: Sequence[Expr], aligned: Sequence[Expr]) -> Type:
    """The type of CASE and its kin, from its values and from the same values once aligned."""
    is_decimal = aligned[0].type.kind is Kind.DECIMAL
    return common_type(values) if is_decimal else aligned[0].type


def _conversion(values: Sequence[Expr], as_written: bool) -> Callable[[Expr], Expr] | None:
    """How values become comparable; None if they cannot."""
    kinds = {value.type.kind for value in values}
    if len(kinds) == 1 and kinds <= _AS_THEY_ARE:
        return lambda expr: expr
    if kinds <= EXACT:
        to = common_type(values, as_written=as_written)
        return lambda expr: in_type(expr, to)
    if kinds <= NUMBERS:
        return to_float
    if kinds <= TIMES or kinds == {Kind.DURATION}:
        order = (Kind.DURATION, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)
        kind = next(k for k in order if k in kinds)
        unit = finer(*(value.type.unit for value in values))
        return lambda expr: to_unit(expr, unit, kind)
    return None


def _unlike(types: Sequence[Type], operation: str) -> ExprTypeError:
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
    return ExprTypeError(f"{operation} of {names} has no meaning{hint}")
