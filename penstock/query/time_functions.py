"""Functions that count time: since the epoch, or between two times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ..expr import ops
from ..expr.node import Expr
from ..expr.ops import ExprTypeError
from ..plan.linear import as_integer
from ..types import TIMES, TIMESTAMPS, UNIT_NS, Kind, integer
from .time_rules import TimeRules

#: Units of ``timestampdiff`` that are of one length, in nanoseconds.
_UNITS_NS = {
    "MICROSECOND": UNIT_NS["us"],
    "MILLISECOND": UNIT_NS["ms"],
    "SECOND": UNIT_NS["s"],
    "MINUTE": 60 * UNIT_NS["s"],
    "HOUR": 3600 * UNIT_NS["s"],
}


def _since_epoch(unit: str) -> Callable[[TimeRules, Any, list[Expr]], Expr]:
    """Whole units since the epoch, rounded down."""

    def made(rules: TimeRules, tree: exp.Expr, args: list[Expr]) -> Expr:
        if len(args) != 1 or args[0].type.kind not in TIMES:
            raise ExprTypeError(f"a timestamp is needed, not {args[0].type}")
        time = rules.instant(args[0])
        if unit == "s":
            step = UNIT_NS["s"] // UNIT_NS[time.type.unit]
            return ops.cast(time, integer(time.type.lo // step, time.type.hi // step))
        own = UNIT_NS[time.type.unit]
        count, step = as_integer(time), UNIT_NS[unit]
        if own >= step:
            return ops.mul(count, ops.const(own // step))
        size = ops.const(step // own)
        rest = ops.mod(ops.add(ops.mod(count, size), size), size)
        return ops.div(ops.sub(count, rest), size)

    return made


def _between(rules: TimeRules, tree: Any, args: list[Expr]) -> Expr:
    """``timestampdiff(unit, from, to)`` and ``datediff(to, from)``: whole units, rounded to 0."""
    unit = tree.args.get("unit")
    name = "DAY" if unit is None else str(unit.name).upper()
    later, earlier = args[:2]
    kinds = {later.type.kind, earlier.type.kind}
    if isinstance(tree, exp.DateDiff) and name == "DAY":
        if kinds != {Kind.DATE}:
            raise ExprTypeError("datediff takes dates; write datediff(to_date(a), to_date(b))")
        return as_integer(ops.sub(later, earlier))
    if name not in _UNITS_NS or not kinds <= TIMESTAMPS:
        known = ", ".join(_UNITS_NS)
        raise ExprTypeError(f"timestampdiff takes one of {known} and two timestamps")
    span = rules.sub(later, earlier)
    step, rest = divmod(_UNITS_NS[name], UNIT_NS[span.type.unit])
    if rest or not step:
        return ops.mul(as_integer(span), ops.const(UNIT_NS[span.type.unit] // _UNITS_NS[name]))
    return ops.div(as_integer(span), ops.const(step))


def _moved(rules: TimeRules, tree: Any, args: list[Expr]) -> Expr:
    """``timestampadd(unit, count, time)``, of a unit of one length."""
    name, (time, count) = str(tree.args["unit"].name).upper(), args
    if name not in _UNITS_NS or time.type.kind not in TIMES:
        raise ExprTypeError(f"timestampadd takes one of {', '.join(_UNITS_NS)} and a timestamp")
    unit = {UNIT_NS["us"]: "us", UNIT_NS["ms"]: "ms"}.get(_UNITS_NS[name], "s")
    step = ops.duration_const(_UNITS_NS[name] // UNIT_NS[unit], unit)
    return rules.add(time, ops.mul(step, count))


#: By the parser's types.
TIME_FUNCTIONS: dict[type[exp.Expr], Callable[[TimeRules, Any, list[Expr]], Expr]] = {
    exp.StrToUnix: _since_epoch("s"),
    exp.UnixSeconds: _since_epoch("s"),
    exp.UnixMillis: _since_epoch("ms"),
    exp.UnixMicros: _since_epoch("us"),
    exp.TimestampAdd: _moved,
    exp.TimestampDiff: _between,
    exp.DateDiff: _between,
}
