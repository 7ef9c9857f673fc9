"""CAST."""

from __future__ import annotations

from penstock.expr.build.align import (
    EXACT,
    finer,
    rescale,
    to_float,
    to_unit,
)
from penstock.expr.build.infer import typed
from penstock.expr.build.leaves import ExprTypeError, const
from penstock.expr.node import Expr, Op
from penstock.types import TIMES, TIMESTAMPS, Kind, Type


def cast(a: Expr, to: Type) -> Expr:
    """Convert as Spark does; a value that does not fit is an error when it is met, not a wrap.

    A widening cast disappears or becomes exact arithmetic.
    """
    source, target = a.type.kind, to.kind
    if source is target and source in (Kind.BOOL, Kind.STRING, Kind.BINARY, Kind.FLOAT32):
        return a
    if source is Kind.NULL:
        return const(None, to)
    if target is Kind.FLOAT64 and source in EXACT | {Kind.FLOAT32, Kind.FLOAT64}:
        return to_float(a)
    if source is Kind.INT and target is Kind.INT and to.lo <= a.type.lo and a.type.hi <= to.hi:
        return a
    if source in EXACT and target is Kind.DECIMAL and a.type.scale <= to.scale:
        wide = rescale(a, to.scale)
        if to.lo <= wide.type.lo and wide.type.hi <= to.hi:
            return wide
    if source in TIMES and target in TIMESTAMPS:
        return to_unit(a, finer(a.type.unit, to.unit), target)
    if source is Kind.DATE and target is Kind.DATE:
        return a
    if (source, target) not in _CASTS:
        raise ExprTypeError(f"CAST from {a.type} to {to} is not supported")
    return typed(Op.CAST, (a,), to)


_NUMBERS = (Kind.INT, Kind.DECIMAL, Kind.FLOAT32, Kind.FLOAT64)
_CASTS = {(s, t) for s in _NUMBERS for t in _NUMBERS} | {
    (Kind.BOOL, Kind.INT),
    (Kind.TIMESTAMP, Kind.DATE),
    (Kind.TIMESTAMP, Kind.INT),
    (Kind.TIMESTAMP_NTZ, Kind.DATE),
    (Kind.TIMESTAMP_NTZ, Kind.INT),
    (Kind.DURATION, Kind.DURATION),
}
