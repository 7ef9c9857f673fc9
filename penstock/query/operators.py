"""The operators and functions of SQL, and the expressions that they make.

Functions are those of numbers, and those that count time: since the epoch, or between two times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlglot import exp

from ..expr import ops
from ..expr.functions import DEGREES, RADIANS
from ..expr.node import Expr, Op
from ..expr.ops import ExprTypeError
from ..expr.ops.typed_nodes import duration_const
from ..expr.periods import days_of_months, month_of
from ..plan.linear import as_integer
from ..plan.simplify import simplify
from ..types import FLOAT64, MOST_DIGITS, TIMES, UNIT_NS, Kind, Type, integer
from .constants import INTERVAL_US, MONTHS
from .time_rules import TimeRules


def members(condition: exp.Expr) -> list[exp.Expr]:
    """Members of the outermost AND, in order; without recursion, since a chain is a deep tree."""
    conjuncts, left = [], [condition]
    while left:
        tree = left.pop()
        if isinstance(tree, exp.And):
            left += [tree.expression, tree.this]
        elif isinstance(tree, exp.Paren) and isinstance(tree.this, exp.And | exp.EQ | exp.Paren):
            left.append(tree.this)
        else:
            conjuncts.append(tree)
    return conjuncts


def _same(a: Expr, b: Expr) -> Expr:
    """``a <=> b``: NULL is the same as NULL, and nothing is unknown."""
    nulls = ops.is_null(a), ops.is_null(b)
    return ops.case([(ops.or_(*nulls), ops.and_(*nulls))], ops.eq(a, b))


BINARY_OPS: dict[type[exp.Expr], Callable[[Expr, Expr], Expr]] = {
    exp.Mul: ops.mul,
    exp.Mod: ops.mod,
    exp.BitwiseAnd: ops.bit_and,
    exp.BitwiseOr: ops.bit_or,
    exp.BitwiseXor: ops.bit_xor,
    exp.BitwiseLeftShift: ops.shl,
    exp.BitwiseRightShift: ops.shr,
    exp.StartsWith: ops.prefix,
}
JUNCTIONS: dict[type[exp.Expr], Callable[..., Expr]] = {exp.And: ops.and_, exp.Or: ops.or_}
#: Where times of different kinds may meet.
TIME_OPS: dict[type[exp.Expr], Callable[[TimeRules, Expr, Expr], Expr]] = {
    exp.Add: TimeRules.add,
    exp.Sub: TimeRules.sub,
    exp.EQ: lambda rules, a, b: ops.eq(*rules.alike(a, b)),
    exp.NEQ: lambda rules, a, b: ops.ne(*rules.alike(a, b)),
    exp.LT: lambda rules, a, b: ops.lt(*rules.alike(a, b)),
    exp.LTE: lambda rules, a, b: ops.le(*rules.alike(a, b)),
    exp.GT: lambda rules, a, b: ops.lt(*rules.alike(b, a)),
    exp.GTE: lambda rules, a, b: ops.le(*rules.alike(b, a)),
    exp.NullSafeEQ: lambda rules, a, b: _same(*rules.alike(a, b)),
    exp.NullSafeNEQ: lambda rules, a, b: ops.not_(_same(*rules.alike(a, b))),
}


#: Below it, a quotient that is no whole number is not rounded to one.
_EXACT_QUOTIENTS = 1 << 52

#: Makes an expression of the lowered arguments.
Form = Callable[..., Expr]


def _of_positive(name: str, above: int = 0) -> Form:
    """A logarithm, which is NULL where it is not defined."""

    def form(x: Expr) -> Expr:
        undefined = ops.le(x, ops.const(above))
        return ops.case([(undefined, ops.const(None, FLOAT64))], ops.call(name, x))

    return form


_ln = _of_positive("ln")


def _log(base: Expr, x: Expr) -> Expr:
    if base.is_const and base.attr == 10 and base.type.kind is Kind.INT:
        return _of_positive("log10")(x)
    return ops.call("divide", _ln(x), _ln(base))


def _whole(name: str) -> Form:
    """``floor`` or ``ceil``."""

    def form(x: Expr) -> Expr:
        if x.type.kind is Kind.INT:
            return x
        quotient = whole_quotient(x)
        if quotient is not None and name == "floor":
            return ops.div(ops.sub(quotient[0], pmod(*quotient)), quotient[1])
        if x.type.kind is not Kind.DECIMAL:
            return ops.call(name, x)
        return ops.whole_below(x) if name == "floor" else ops.neg(ops.whole_below(ops.neg(x)))

    return form


def whole_quotient(x: Expr) -> tuple[Expr, Expr] | None:
    """Integers whose quotient is ``x``, where no rounding hides a whole number.

    The remainder of their division is then the part cut off: so windows are found in
    ``floor(unix_timestamp(t) / 60)``.
    """
    if x.op is not Op.FUNCTION or x.attr != "divide":
        return None
    a, b = x.args
    if a.op is not Op.CAST or a.args[0].type.kind is not Kind.INT or not b.is_const:
        return None
    whole = a.args[0]
    largest = max(abs(whole.type.lo), abs(whole.type.hi))
    if largest >= _EXACT_QUOTIENTS or not float(b.attr).is_integer() or not b.attr >= 1:
        return None
    return whole, ops.const(int(b.attr))


def _rounded(x: Expr, digits: Expr | None = None) -> Expr:
    digits = ops.const(0) if digits is None else digits
    if not digits.is_const or digits.type.kind is not Kind.INT or abs(digits.attr) > MOST_DIGITS:
        raise ExprTypeError(f"round takes a constant number of digits, up to {MOST_DIGITS}")
    if x.type.kind is Kind.FLOAT32:
        raise ExprTypeError("round does not take float32; write round(CAST(x AS DOUBLE), n)")
    if x.type.kind not in (Kind.INT, Kind.DECIMAL):
        return ops.call("rounded", x, digits)
    if x.type.kind is Kind.DECIMAL:
        return ops.rounded_to(x, digits.attr)
    if digits.attr >= 0:
        return x
    step = 10**-digits.attr
    half, step = ops.const(step // 2), ops.const(step)
    up, down = (ops.mul(ops.div(by(x, half), step), step) for by in (ops.add, ops.sub))
    return ops.case([(ops.lt(x, ops.const(0)), down)], up)


def _sign(x: Expr) -> Expr:
    zero = ops.const(0)
    pairs = [(ops.lt(zero, x), ops.const(1.0)), (ops.lt(x, zero), ops.const(-1.0))]
    if x.type.is_float:
        pairs.insert(0, (ops.eq(x, ops.const(math.nan)), ops.const(math.nan)))
    return ops.case(pairs, ops.cast(x, FLOAT64))


def pmod(a: Expr, b: Expr) -> Expr:
    """The remainder with the sign of the divisor."""
    mod = ops.mod(a, b)
    signed = ops.case([(ops.lt(mod, ops.const(0)), ops.mod(ops.add(mod, b), b))], mod)
    is_decimal = mod.type.kind is Kind.DECIMAL
    return ops.settled(signed, mod.type.precision, mod.type.scale) if is_decimal else signed


def _is_nan(x: Expr) -> Expr:
    if not x.type.is_float:
        raise ExprTypeError(f"isnan needs a float, not {x.type}")
    return ops.case([(ops.eq(x, ops.const(math.nan)), ops.TRUE)], ops.FALSE)


def _times(factor: float) -> Form:
    return lambda x: ops.mul(ops.cast(x, FLOAT64), ops.const(factor))


#: By the parser's types, whose arguments are ``this`` and ``expression``.
BY_TYPE: dict[type[exp.Expr], Form] = {
    exp.Neg: ops.neg,
    exp.Abs: ops.absolute,
    exp.BitwiseNot: ops.bit_not,
    exp.Not: ops.not_,
    exp.Div: ops.divide,
    exp.SafeDivide: ops.divide,
    exp.IntDiv: ops.div,
    **{
        kind: partial(ops.call, kind.__name__.lower())
        for kind in (
            *(exp.Sqrt, exp.Cbrt, exp.Exp, exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos),
            *(exp.Atan, exp.Atan2, exp.Sinh, exp.Cosh, exp.Tanh),
        )
    },
    exp.Ln: _ln,
    exp.Log: _log,
    exp.Pow: partial(ops.call, "power"),
    exp.Floor: _whole("floor"),
    exp.Ceil: _whole("ceil"),
    exp.Sign: _sign,
    exp.Radians: _times(RADIANS),
    exp.Degrees: _times(DEGREES),
    exp.Pi: lambda: ops.const(math.pi),
    exp.IsNan: _is_nan,
    exp.Nanvl: lambda a, b: ops.case([(_is_nan(a), b)], a),
    exp.Round: _rounded,
    exp.Negative: ops.neg,
}


def _instant(name: str, unit: str, count: Expr) -> Expr:
    """The instant so many units after 1970, in microseconds."""
    if count.type.kind not in (Kind.INT, Kind.NULL):
        raise ExprTypeError(f"{name} takes a whole number, not {count.type}")
    if count.is_null_const:
        return ops.const(None, Type(Kind.TIMESTAMP, unit="us"))
    start = ops.const(0, Type(Kind.TIMESTAMP, unit="us"))
    return ops.add(start, ops.mul(count, duration_const(1, unit)))


#: By the names that the parser does not know.
BY_NAME: dict[str, tuple[int, Form]] = {
    "pmod": (2, pmod),
    "hypot": (2, partial(ops.call, "hypot")),
    "haversine": (4, partial(ops.call, "haversine")),
    "log1p": (1, _of_positive("log1p", -1)),
    "expm1": (1, partial(ops.call, "expm1")),
    "isnull": (1, ops.is_null),
    "isnotnull": (1, lambda x: ops.not_(ops.is_null(x))),
    "positive": (1, lambda x: x),
    "e": (0, lambda: ops.const(math.e)),
    **{
        name: (1, partial(_instant, name, unit))
        for name, unit in (
            ("timestamp_seconds", "s"),
            ("timestamp_millis", "ms"),
            ("timestamp_micros", "us"),
        )
    },
}
#: Arguments of the parser's types, in order.
ARGUMENTS = ("this", "expression", "decimals")


#: Units of one length, on a wall clock, in nanoseconds.
_UNITS_NS = {unit: 1000 * micros for unit, micros in reversed(INTERVAL_US.items())}
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
