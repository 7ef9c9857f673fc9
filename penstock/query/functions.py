"""Functions of numbers, by the parser's types and names, and the expressions that they make."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from sqlglot import exp

from ..expr import ops
from ..expr.functions import DEGREES, RADIANS
from ..expr.node import Expr, Op
from ..expr.ops import ExprTypeError
from ..expr.ops.leaves import duration_const
from ..types import FLOAT64, MOST_DIGITS, Kind, Type

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
    exp.Div: ops.divide,
    exp.SafeDivide: ops.divide,
    exp.IntDiv: ops.div,
    exp.Sqrt: partial(ops.call, "sqrt"),
    exp.Cbrt: partial(ops.call, "cbrt"),
    exp.Exp: partial(ops.call, "exp"),
    exp.Ln: _ln,
    exp.Log: _log,
    exp.Pow: partial(ops.call, "power"),
    exp.Sin: partial(ops.call, "sin"),
    exp.Cos: partial(ops.call, "cos"),
    exp.Tan: partial(ops.call, "tan"),
    exp.Asin: partial(ops.call, "asin"),
    exp.Acos: partial(ops.call, "acos"),
    exp.Atan: partial(ops.call, "atan"),
    exp.Atan2: partial(ops.call, "atan2"),
    exp.Sinh: partial(ops.call, "sinh"),
    exp.Cosh: partial(ops.call, "cosh"),
    exp.Tanh: partial(ops.call, "tanh"),
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
