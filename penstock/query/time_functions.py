"""Functions that count time: since the epoch, or between two times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ..expr import ops
from ..expr.calendar import days_of_months, month_of
from ..expr.node import Expr
from ..expr.ops import ExprTypeError
from ..plan.linear import as_integer
from ..plan.simplify import simplify
from ..types import TIMES, UNIT_NS, Kind, integer
from .constants import MONTHS
from .time_rules import TimeRules

#: Units of one length, on a wall clock, in nanoseconds.
_UNITS_NS = {
    "MICROSECOND": UNIT_NS["us"],
    "MILLISECOND": UNIT_NS["ms"],
    "SECOND": UNIT_NS["s"],
    "MINUTE": 60 * UNIT_NS["s"],
    "HOUR": 3600 * UNIT_NS["s"],
    "DAY": UNIT_NS["D"],
    "WEEK": 7 * UNIT_NS["D"],
}
_KNOWN = ", ".join((*_UNITS_NS, *MONTHS))


def _since_epoch(unit: str) -> Callable[[TimeRules, Any, list[Expr]], Expr]:
    """Whole units since the epoch, rounded down."""

    def compute(rules: TimeRules, tree: exp.Expr, args: list[Expr]) -> Expr:
        if len(args) != 1 or args[0].type.kind not in TIMES:
            raise ExprTypeError(f"a timestamp is needed, not {args[0].type}")
        time = rules.instant(args[0])
        if unit == "s":
            step = UNIT_NS["s"] // UNIT_NS[time.type.unit]
            return ops.cast(time, integer(time.type.lo // step, time.type.hi // step))
        tick = UNIT_NS[time.type.unit]
        count, step = as_integer(time), UNIT_NS[unit]
        if tick >= step:
            return ops.mul(count, ops.const(tick // step))
        size = ops.const(step // tick)
        remainder = ops.mod(ops.add(ops.mod(count, size), size), size)
        return ops.div(ops.sub(count, remainder), size)

    return compute


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
    if name not in (*_UNITS_NS, *MONTHS) or not kinds <= TIMES:
        raise ExprTypeError(f"timestampdiff takes one of {_KNOWN} and two timestamps")
    later, earlier = map(rules.local, (later, earlier))
    if name in MONTHS:
        return ops.div(_months_between(rules, later, earlier), ops.const(MONTHS[name]))
    span = ops.sub(later, earlier)
    step, remainder = divmod(_UNITS_NS[name], UNIT_NS[span.type.unit])
    if remainder or not step:
        return ops.mul(as_integer(span), ops.const(UNIT_NS[span.type.unit] // _UNITS_NS[name]))
    return ops.div(as_integer(span), ops.const(step))


def _months_between(rules: TimeRules, later: Expr, earlier: Expr) -> Expr:
    """Whole months between two wall clocks, rounded to 0, as java.time counts them."""
    dates = [rules.date(time) for time in (later, earlier)]
    a, b = (ops.sub(time, date) for time, date in zip((later, earlier), dates, strict=True))
    one_day = ops.duration_const(1, "D")
    until = ops.case(
        [
            (ops.and_(ops.lt(dates[1], dates[0]), ops.lt(a, b)), ops.sub(dates[0], one_day)),
            (ops.and_(ops.lt(dates[0], dates[1]), ops.lt(b, a)), ops.add(dates[0], one_day)),
        ],
        dates[0],
    )
    size = ops.const(32)
    ends = [ops.add(ops.mul(month, size), day) for month, day in map(month_of, (until, dates[1]))]
    return ops.div(ops.sub(*ends), size)


def _moved(rules: TimeRules, tree: Any, args: list[Expr]) -> Expr:
    """``timestampadd(unit, count, time)``, and ``date_add`` and ``date_sub`` of days."""
    name, (time, count) = str(tree.args["unit"].name).upper(), args
    is_known = name in (*_UNITS_NS, *MONTHS) and time.type.kind in TIMES
    if not is_known or count.type.kind not in (Kind.INT, Kind.NULL):
        raise ExprTypeError(f"timestampadd takes one of {_KNOWN}, a whole number and a timestamp")
    if isinstance(tree, exp.TsOrDsAdd):
        time = rules.date(time)
    elif time.type.kind is Kind.DATE:
        time = rules.instant(time)
    if count.is_null_const:
        return ops.const(None, time.type)
    if name in MONTHS:
        return later_by_months(rules, time, simplify(ops.mul(count, ops.const(MONTHS[name]))))
    days, remainder = divmod(_UNITS_NS[name], UNIT_NS["D"])
    if not remainder:
        return _later_by_days(rules, time, simplify(ops.mul(count, ops.const(days))))
    unit = {UNIT_NS["us"]: "us", UNIT_NS["ms"]: "ms"}.get(_UNITS_NS[name], "s")
    step = ops.duration_const(_UNITS_NS[name] // UNIT_NS[unit], unit)
    return rules.add(time, ops.mul(step, count))


def later_by_months(rules: TimeRules, time: Expr, months: Expr) -> Expr:
    """A time some months later on the calendar, at the same time of day."""
    return _later_by_days(rules, time, days_of_months(rules.date(time), months))


def _later_by_days(rules: TimeRules, time: Expr, days: Expr) -> Expr:
    if time.type.kind is Kind.DATE:
        return ops.add(time, days)
    span = ops.mul(ops.duration_const(1, "D"), days)
    return rules.add(time, simplify(span))


#: By the parser's types.
TIME_FUNCTIONS: dict[type[exp.Expr], Callable[[TimeRules, Any, list[Expr]], Expr]] = {
    exp.StrToUnix: _since_epoch("s"),
    exp.UnixSeconds: _since_epoch("s"),
    exp.UnixMillis: _since_epoch("ms"),
    exp.UnixMicros: _since_epoch("us"),
    exp.TimestampAdd: _moved,
    exp.TsOrDsAdd: _moved,
    exp.TimestampDiff: _between,
    exp.DateDiff: _between,
}
