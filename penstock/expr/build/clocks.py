"""Wall clocks of instants and instants of wall clocks, in a time zone."""

from __future__ import annotations

from penstock.expr.build.align import to_unit
from penstock.expr.build.arithmetic import add
from penstock.expr.build.infer import typed
from penstock.expr.build.leaves import const, duration_const
from penstock.expr.evaluate import evaluate
from penstock.expr.node import Expr, Op
from penstock.types import Kind, Type
from penstock.zones import Zone


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
    made = typed(op, args, Type(kind, unit=args[0].type.unit), (zone.name, special))
    return const(evaluate(made, {}), made.type) if all(arg.is_const for arg in args) else made
