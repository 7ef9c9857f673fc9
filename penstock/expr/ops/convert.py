"""Conversions: CAST, and between instants and the wall clocks of a time zone."""

from __future__ import annotations

from ...types import TIMES, TIMESTAMPS, Kind, Type
from ...zones import Zone
from ..columns import evaluate
from ..node import Expr, Op
from .align import EXACT, NUMBERS, finer, to_float, to_unit
from .arithmetic import add
from .decimals import rescale, with_digits
from .typed_nodes import ExprTypeError, const, duration_const, typed


def cast(a: Expr, to: Type) -> Expr:
    """Convert as Spark does; a value that does not fit is an error when it is met, not a wrap.

    A widening cast disappears or becomes exact arithmetic; that of an integer stays, for its type.
    """
    source, target = a.type.kind, to.kind
    if source is target and source in (Kind.BOOL, Kind.STRING, Kind.BINARY, Kind.FLOAT32):
        return a
    if source is Kind.NULL:
        return const(None, to)
    if target is Kind.FLOAT64 and source in NUMBERS:
        return to_float(a)
    if source is Kind.INT and target is Kind.INT and to.lo <= a.type.lo and a.type.hi <= to.hi:
        # The value is the same, and counts as one of the type from there on.
        # Constants of 32 bits stay such; 1L is one of 64.
        is_plain = a.is_const and to.bits <= 32
        return a if is_plain else typed(Op.CAST, (a,), to, to.bits)
    if source in EXACT and target is Kind.DECIMAL and a.type.scale <= to.scale:
        wide = rescale(a, to.scale)
        if to.lo <= wide.type.lo and wide.type.hi <= to.hi:
            return with_digits(wide, to.precision)
    if source in TIMES and target in TIMESTAMPS:
        return to_unit(a, finer(a.type.unit, to.unit), target)
    if source is Kind.DATE and target is Kind.DATE:
        return a
    if (source, target) not in _CASTS:
        raise ExprTypeError(f"CAST from {a.type} to {to} is not supported")
    return typed(Op.CAST, (a,), to)


_CASTS = {(s, t) for s in NUMBERS for t in NUMBERS} | {
    (Kind.BOOL, Kind.INT),
    (Kind.TIMESTAMP, Kind.DATE),
    (Kind.TIMESTAMP, Kind.INT),
    (Kind.TIMESTAMP_NTZ, Kind.DATE),
    (Kind.TIMESTAMP_NTZ, Kind.INT),
    (Kind.DURATION, Kind.DURATION),
}


def to_local(instant: Expr, zone: Zone) -> Expr:
    """The wall clock (TIMESTAMP_NTZ) of a TIMESTAMP."""
    if zone.fixed_s is not None:
        return _moved(instant, Kind.TIMESTAMP_NTZ, zone.fixed_s)
    return _zoned(Op.LOCAL, (instant,), Kind.TIMESTAMP_NTZ, zone, False)


def to_instant(wall: Expr, zone: Zone, near: Expr | None = None, *, start: bool = False) -> Expr:
    """The TIMESTAMP of a wall clock or date; see :meth:`penstock.zones.Zone.instant`."""
    if wall.type.kind is Kind.DATE:
        wall = to_unit(wall, "s", Kind.TIMESTAMP_NTZ)
    if zone.fixed_s is not None:
        return _moved(wall, Kind.TIMESTAMP, -zone.fixed_s)
    args = (wall,) if near is None else (wall, near)
    return _zoned(Op.INSTANT, args, Kind.TIMESTAMP, zone, start)


def _moved(time: Expr, kind: Kind, by_s: int) -> Expr:
    renamed = to_unit(time, time.type.unit, kind)
    return add(renamed, duration_const(by_s, "s")) if by_s else renamed


def _zoned(op: Op, args: tuple[Expr, ...], kind: Kind, zone: Zone, special: bool) -> Expr:
    converted = typed(op, args, Type(kind, unit=args[0].type.unit), (zone.name, special))
    return (
        const(evaluate(converted), converted.type)
        if all(arg.is_const for arg in args)
        else converted
    )
