"""Spark's types of decimals: the digits of a result, its rounding, and NULL where it has no room.

Decimals are exact up to 38 digits. Beyond them Spark gives up digits after the point, down to six,
and rounds HALF_UP. Operands of more than 38 digits, which Spark has not, give exact results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...types import BOOL, INT64, MOST_DIGITS, Kind, Type
from ..columns import evaluate
from ..node import Expr, Op, node, once_per_node
from .typed_nodes import const, times, typed

EXACT = frozenset({Kind.INT, Kind.DECIMAL})
#: Spark's integers: their bits, and the digits of a decimal that holds them.
INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
#: Bits of a literal.
_LITERALS = (32, 64)
#: Digits after the point that a result keeps in any case, if it has as many.
_LEAST_SCALE = 6


# -- digits of operands ---------------------------------------------------------------------------


def least_bits(dtype: Type, widths: Sequence[int] = tuple(INTEGER_DIGITS)) -> int | None:
    """The smallest of some widths that holds all values of a type, if any."""
    fits = (b for b in widths if -(1 << (b - 1)) <= dtype.lo and dtype.hi < 1 << (b - 1))
    return next(fits, None)


@once_per_node
def spark_bits(expr: Expr) -> int | None:
    """Bits of the integer that Spark computes with; None if they are not known."""
    if expr.type.kind is not Kind.INT:
        return None
    if expr.op in (Op.COLUMN, Op.CAST):
        return expr.attr if expr.op is Op.CAST and expr.attr else least_bits(expr.type)
    if expr.is_const:
        return least_bits(expr.type, _LITERALS)
    if expr.op in (Op.SHL, Op.SHR):
        return spark_bits(expr.args[0])
    values = [*expr.args[1::2], expr.args[-1]] if expr.op is Op.CASE else expr.args
    known = [bits for bits in map(spark_bits, values) if bits is not None]
    return max(known) if known and len(known) == len(values) else None


def digits_of(expr: Expr, *, as_written: bool = False) -> int:
    """Digits of an integer or decimal; ``as_written`` counts the digits of a constant itself."""
    needed = expr.type.precision
    if expr.type.kind is Kind.DECIMAL or (expr.is_const and as_written):
        return needed
    return max(needed, INTEGER_DIGITS[_bits_of(expr)])


def spark_integer(expr: Expr) -> Type:
    """The type of an integer, with the bounds that Spark's has, if its own are within those."""
    most = 1 << (_bits_of(expr) - 1)
    is_within = -most <= expr.type.lo and expr.type.hi < most
    return expr.type.within(-most, most - 1) if is_within else expr.type


def _bits_of(expr: Expr) -> int:
    return spark_bits(expr) or least_bits(expr.type) or 64


def exact_pair(a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
    """Both operands if one is a decimal and none a float; NULL takes the other's type."""
    kinds = {a.type.kind, b.type.kind}
    if Kind.DECIMAL not in kinds or not kinds <= EXACT | {Kind.NULL}:
        return None
    null_a, null_b = const(None, b.type), const(None, a.type)
    return null_a if a.type.kind is Kind.NULL else a, null_b if b.type.kind is Kind.NULL else b


def common_type(values: Sequence[Expr], *, as_written: bool = False) -> Type:
    """The common type of numbers and decimals; it keeps digits before the point first.

    Where a value has more digits than Spark allows, the type has no limit of digits.
    """
    shapes = [
        (digits_of(value, as_written=as_written), value.type.scale)
        for value in values
        if value.type.kind is not Kind.NULL
    ]
    scale = max(scale for _, scale in shapes)
    if max(digits for digits, _ in shapes) > MOST_DIGITS:
        return Type(Kind.DECIMAL, scale=scale)
    whole = max(digits - scale for digits, scale in shapes)
    scale = min(scale, MOST_DIGITS - whole)
    return Type(Kind.DECIMAL, scale=scale, digits=whole + scale)


def rescale(expr: Expr, scale: int) -> Expr:
    """Write a number as a decimal of ``scale`` digits, not fewer than it has."""
    if expr.type.kind is Kind.DECIMAL and expr.type.scale == scale:
        return expr
    return times(expr, 10 ** (scale - expr.type.scale), Type(Kind.DECIMAL, scale=scale))


def in_type(expr: Expr, to: Type) -> Expr:
    """Cast a number to the :func:`common_type` that it has with others."""
    if expr.type.scale > to.scale:
        return settled(expr, to.digits, to.scale)
    return rescale(expr, to.scale)


# -- results --------------------------------------------------------------------------------------


def _adjusted(digits: int, scale: int) -> tuple[int, int]:
    """Give up digits after the point for those before it."""
    if digits <= MOST_DIGITS:
        return digits, scale
    return MOST_DIGITS, max(MOST_DIGITS - (digits - scale), min(scale, _LEAST_SCALE))


def combined(op: Op, a: Expr, b: Expr) -> Expr:
    """The sum, difference, product or remainder of two numbers of :func:`exact_pair`."""
    (p, s), (q, t) = ((digits_of(x, as_written=True), x.type.scale) for x in (a, b))
    if op is Op.MUL:
        digits, scale, args = p + q + 1, s + t, (a, b)
    else:
        scale = max(s, t)
        args = rescale(a, scale), rescale(b, scale)
        digits = scale + (min(p - s, q - t) if op is Op.MOD else max(p - s, q - t) + 1)
    exact = typed(op, args, Type(Kind.DECIMAL, scale=scale))
    return exact if max(p, q) > MOST_DIGITS else settled(exact, *_adjusted(digits, scale))


def decimal_quotient(a: Expr, b: Expr) -> Expr | None:
    """The quotient of two numbers of :func:`exact_pair`; None if Spark allows one fewer digits."""
    (p, s), (q, t) = ((digits_of(x, as_written=True), x.type.scale) for x in (a, b))
    if max(p, q) > MOST_DIGITS:
        return None
    scale = max(_LEAST_SCALE, s + q + 1)
    return divided(a, b, *_adjusted(p - s + t + scale, scale))


def divided(a: Expr, b: Expr, digits: int, scale: int) -> Expr:
    """The quotient as a decimal, rounded once; NULL where the divisor is 0."""
    if a.is_null_const or b.is_null_const or (b.is_const and not b.attr):
        return const(None, Type(Kind.DECIMAL, scale=scale, digits=digits))
    power = scale - a.type.scale + b.type.scale
    return fitting(_ratio(a, b, 10 ** max(power, 0), 10 ** max(-power, 0), scale), digits)


def whole_quotient(a: Expr, b: Expr) -> Expr:
    """``DIV`` of two numbers of :func:`exact_pair`, a BIGINT; NULL beyond it."""
    scale = max(a.type.scale, b.type.scale)
    whole = typed(Op.DIV, (rescale(a, scale), rescale(b, scale)), Type(Kind.INT))
    is_bigint = INT64[0] <= whole.type.lo and whole.type.hi <= INT64[1]
    return whole if is_bigint else _within(whole, INT64[1], Type(Kind.INT))


def settled(exact: Expr, digits: int, scale: int) -> Expr:
    """A decimal rounded HALF_UP to a scale; NULL where it needs more digits."""
    step = 10 ** (exact.type.scale - scale)
    rounded = fitting(exact if step == 1 else _ratio(exact, const(1), 1, step, scale), digits)
    return const(evaluate(rounded), rounded.type) if exact.is_const else rounded


def before_settling(expr: Expr) -> tuple[Expr, int, int | None] | None:
    """The argument of :func:`settled`, its step, and the most that is not NULL, if any is NULL.

    None for other integers and decimals.
    """
    value, most = expr, None
    if expr.op is Op.CASE and expr.args[1].op is Op.MOD:
        inner, size = expr.args[1].args
        like = Type(expr.type.kind, scale=expr.type.scale, digits=expr.type.digits)
        if size.is_const and size.attr and _within(inner, size.attr - 1, like) is expr:
            value, most = inner, size.attr - 1
    if value.op is Op.DIV and value.args[0].op is Op.CASE and value.args[1].is_const:
        condition, step = value.args[0].args[0], (value.args[1].attr or 0) // 2
        doubled = next(iter(condition.args), condition)
        exact = next(iter(doubled.args), doubled)
        if exact.type.is_integral and step:
            rounded = _ratio(exact, const(1), 1, step, value.type.scale)
            if with_digits(rounded, value.type.digits) is value:
                return exact, step, most
    return None if value is expr else (value, 1, most)


def rounded_to(x: Expr, places: int) -> Expr:
    """A decimal rounded HALF_UP at a decimal place, before the point if it is below 0."""
    whole = digits_of(x) - x.type.scale + 1
    if places >= 0:
        scale = min(x.type.scale, places)
        return settled(x, min(whole + scale, MOST_DIGITS), scale)
    step = 10**-places
    near = _ratio(x, const(1), 1, step * 10**x.type.scale, 0)
    return fitting(times(near, step, near.type), min(max(whole, 1 - places), MOST_DIGITS))


def whole_below(x: Expr) -> Expr:
    """``floor`` of a decimal."""
    if not x.type.scale:
        return x
    step = 10**x.type.scale
    start = _by_sign(x, _stored(Op.SUB, x, const(step - 1), x.type.scale), x)
    below = _stored(Op.DIV, start, const(step), 0)
    return fitting(below, min(digits_of(x) - x.type.scale + 1, MOST_DIGITS))


def with_digits(expr: Expr, digits: int) -> Expr:
    """The same decimal in a type of other digits, which has room for all its values."""
    dtype = replace(expr.type, digits=digits)
    if dtype == expr.type:
        return expr
    if expr.op in (Op.COLUMN, Op.KEY):
        return typed(Op.CAST, (expr,), dtype)
    return node(expr.op, expr.args, dtype, expr.attr)


def fitting(value: Expr, digits: int) -> Expr:
    """A decimal in a type of so many digits: NULL where it needs more."""
    most = 10**digits - 1
    if -most <= value.type.lo and value.type.hi <= most:
        return with_digits(value, digits)
    return _within(value, most, Type(Kind.DECIMAL, scale=value.type.scale, digits=digits))


def _within(value: Expr, most: int, like: Type) -> Expr:
    # The remainder leaves a value inside as it is, and has its bounds.
    inside = typed(Op.MOD, (value, const(most + 1, like)), like)
    ends = const(-most, value.type), const(most, value.type)
    fits = [typed(Op.LE, pair, BOOL) for pair in ((ends[0], value), (value, ends[1]))]
    args = typed(Op.AND, fits, BOOL), inside, const(None, like)
    return typed(Op.CASE, args, like, "NUMERIC_VALUE_OUT_OF_RANGE")


# -- stored integers ------------------------------------------------------------------------------


def _stored(op: Op, a: Expr, b: Expr, scale: int) -> Expr:
    """An operation on the stored integers of decimals, whatever their scales."""
    return typed(op, (a, b), Type(Kind.DECIMAL, scale=scale))


def _by_sign(x: Expr, negative: Expr, otherwise: Expr) -> Expr:
    is_negative = typed(Op.LT, (x, const(0, x.type)), BOOL)
    return typed(Op.CASE, (is_negative, negative, otherwise), otherwise.type)


def _ratio(a: Expr, b: Expr, up: int, down: int, scale: int) -> Expr:
    """``a * up / (b * down)`` of stored integers, rounded HALF_UP."""
    # Twice of both, so that half of the divisor is whole.
    like = Type(Kind.DECIMAL, scale=scale)
    over, by = times(a, 2 * up, like), b if down == 1 else times(b, down, like)
    half = const(abs(by.attr), like) if by.is_const else typed(Op.ABS, (by,), like)
    away = [_stored(op, over, half, scale) for op in (Op.SUB, Op.ADD)]
    return _stored(Op.DIV, _by_sign(over, *away), times(by, 2, like), scale)
