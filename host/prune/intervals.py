"""Interval arithmetic over the predicate of a general program, for many boxes of keys at once.

Bounds are float64. An integer that float64 may not hold is rounded outwards, so that every bound is
sound; floats are rounded as devices round them, which never changes the order of two values. NaN
is above everything and is carried beside the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.expr.compute import compute
from penstock.expr.node import Expr, Op
from penstock.types import Kind, Type

#: Integers up to this magnitude are exact in float64.
_EXACT = 1 << 53
#: Integers below this magnitude have a finite float64, and so have their sums.
_FINITE = 1 << 1022
_ANY = np.ones((1, 1), bool)


@dataclass(frozen=True)
class Range:
    """Numbers in ``[lo, hi]``, and NaN where ``nan``; arrays that can be broadcast together.

    ``lo > hi`` where there is no number.
    """

    lo: np.ndarray
    hi: np.ndarray
    nan: np.ndarray | bool = False


@dataclass(frozen=True)
class Truth:
    """Whether a condition may be true, and whether it may be false; arrays of bool."""

    true: np.ndarray
    false: np.ndarray


Bounds = Range | Truth

_UNKNOWN = Truth(_ANY, _ANY)


def bounds_of(predicate: Expr, keys: Mapping[tuple[str, int], Bounds]) -> Truth:
    """Whether a predicate may be true or false for keys within some bounds.

    Parameters
    ----------
    predicate : Expr
        Of a :class:`~penstock.program.GeneralProgram`.
    keys : mapping of ("s" | "w", index) to Range or Truth
        Truth for a boolean key.
    """

    def rule(current: Expr, args: Sequence[Bounds]) -> Bounds:
        if current.op is Op.KEY:
            return keys[current.attr]
        if current.op in _RULES:
            return _RULES[current.op](current, args)
        return _of_type(current.type)

    with np.errstate(all="ignore"):
        return _truth(compute(predicate, rule))


def range_of(lo: np.ndarray, hi: np.ndarray, dtype: Type, nan: np.ndarray | bool = False) -> Range:
    """Bounds of a key that lies between two columns of values of its type."""
    low, high = np.asarray(lo, np.float64), np.asarray(hi, np.float64)
    return _outwards(low, high, dtype) if dtype.is_integral else Range(low, high, nan)


def unbounded(dtype: Type) -> Bounds:
    """What is known of a key without a look at its values."""
    return _of_type(dtype)


def _outwards(lo: np.ndarray, hi: np.ndarray, dtype: Type) -> Range:
    if dtype.lo >= -_EXACT and dtype.hi <= _EXACT:
        return Range(lo, hi)
    return Range(np.nextafter(lo, -np.inf), np.nextafter(hi, np.inf))


def _of_type(dtype: Type) -> Bounds:
    if dtype.kind is Kind.BOOL:
        return _UNKNOWN
    if dtype.is_integral and _is_finite(dtype):
        return _outwards(np.full((1, 1), float(dtype.lo)), np.full((1, 1), float(dtype.hi)), dtype)
    return Range(np.full((1, 1), -np.inf), np.full((1, 1), np.inf), dtype.is_float)


def _is_finite(dtype: Type) -> bool:
    return dtype.lo > -_FINITE and dtype.hi < _FINITE


def _truth(found: Bounds) -> Truth:
    return found if isinstance(found, Truth) else _UNKNOWN


def _const(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    value = expr.attr
    if isinstance(value, bool):
        return Truth(np.full((1, 1), value), np.full((1, 1), not value))
    if isinstance(value, float) and np.isnan(value):
        return Range(np.full((1, 1), np.inf), np.full((1, 1), -np.inf), _ANY)
    if isinstance(value, int | float):
        if isinstance(value, int) and not _is_finite(expr.type):
            return _of_type(expr.type)
        single = np.full((1, 1), float(value))
        return range_of(single, single, expr.type)
    return _of_type(expr.type)


def _numbers(
    compute: Callable[..., tuple[np.ndarray, np.ndarray]],
) -> Callable[[Expr, Sequence[Bounds]], Bounds]:
    """Rule for an operation on numbers whose bounds are ``compute`` of its operands' bounds."""

    def apply(expr: Expr, args: Sequence[Bounds]) -> Bounds:
        ranges = [a for a in args if isinstance(a, Range)]
        if len(ranges) < len(args) or not all(map(_is_finite, (expr.type, *_types(expr)))):
            return _of_type(expr.type)
        if len(args) == 2 and expr.op is Op.MUL and expr.args[0] is expr.args[1]:
            lo, hi = _square(ranges[0])
        else:
            lo, hi = compute(*ranges)
        if expr.type.is_integral:
            return _outwards(lo, hi, expr.type)
        return _floats(expr.type, lo, hi, ranges)

    return apply


def _types(expr: Expr) -> Sequence[Type]:
    return [a.type for a in expr.args]


def _floats(dtype: Type, lo: np.ndarray, hi: np.ndarray, args: Sequence[Range]) -> Range:
    """Bounds of a float: where an operand has no number, or infinities meet, anything is left."""
    nan = np.logical_or.reduce(np.broadcast_arrays(*(a.nan for a in args)))
    strange = np.isnan(lo) | np.isnan(hi)
    for a in args:
        strange = strange | (a.lo > a.hi) | np.isinf(a.lo) | np.isinf(a.hi)
    lo, hi = np.where(strange, -np.inf, lo), np.where(strange, np.inf, hi)
    if dtype.kind is Kind.FLOAT32:
        lo, hi = (x.astype(np.float32).astype(np.float64) for x in (lo, hi))
    return Range(lo, hi, nan | strange)


def _square(a: Range) -> tuple[np.ndarray, np.ndarray]:
    low, high = a.lo * a.lo, a.hi * a.hi
    inside = (a.lo <= 0) & (a.hi >= 0)
    return np.where(inside, 0.0, np.minimum(low, high)), np.maximum(low, high)


def _product(a: Range, b: Range) -> tuple[np.ndarray, np.ndarray]:
    ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    lo, hi = ends[0], ends[0]
    for end in ends[1:]:
        lo, hi = np.minimum(lo, end), np.maximum(hi, end)
    return lo, hi


def _absolute(a: Range) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.abs(a.lo), np.abs(a.hi)
    inside = (a.lo <= 0) & (a.hi >= 0)
    return np.where(inside, 0.0, np.minimum(low, high)), np.maximum(low, high)


def _extreme(least: bool) -> Callable[[Expr, Sequence[Bounds]], Bounds]:
    pick = np.minimum if least else np.maximum

    def apply(expr: Expr, args: Sequence[Bounds]) -> Bounds:
        result = args[0]
        for other in args[1:]:
            if not isinstance(result, Range) or not isinstance(other, Range):
                return _of_type(expr.type)
            if expr.type.is_integral:
                result = Range(pick(result.lo, other.lo), pick(result.hi, other.hi))
            else:  # either of them may be NaN, and the other one the result
                result = _hull(result, other)
        return result

    return apply


def _hull(a: Range, b: Range) -> Range:
    return Range(np.minimum(a.lo, b.lo), np.maximum(a.hi, b.hi), np.logical_or(a.nan, b.nan))


def _cast(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    (a,) = args
    source, target = expr.args[0].type, expr.type
    # Casts of decimals and times may scale; what only changes its width keeps its bounds.
    same = source.scale == target.scale == 0 and source.unit == target.unit
    if not isinstance(a, Range) or not same or (source.is_float and not target.is_float):
        return _of_type(target)
    if target.kind is not Kind.FLOAT32:
        return a
    lo, hi = (x.astype(np.float32).astype(np.float64) for x in (a.lo, a.hi))
    return Range(lo, hi, a.nan)


def _compare(op: Op) -> Callable[[Expr, Sequence[Bounds]], Bounds]:
    def apply(expr: Expr, args: Sequence[Bounds]) -> Bounds:
        a, b = args
        if not isinstance(a, Range) or not isinstance(b, Range):
            return _UNKNOWN
        if op is Op.LT:
            return Truth((a.lo < b.hi) | b.nan, (a.hi >= b.lo) | a.nan)
        if op is Op.LE:
            return Truth((a.lo <= b.hi) | b.nan, (a.hi > b.lo) | a.nan)
        meet = (a.lo <= b.hi) & (b.lo <= a.hi)
        one = (a.lo == a.hi) & (b.lo == b.hi) & (a.lo == b.lo)
        return Truth(meet | np.logical_and(a.nan, b.nan), ~one | a.nan | b.nan)

    return apply


def _and(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    true, false = _truth(args[0]).true, _truth(args[0]).false
    for other in map(_truth, args[1:]):
        true, false = true & other.true, false | other.false
    return Truth(true, false)


def _or(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    true, false = _truth(args[0]).true, _truth(args[0]).false
    for other in map(_truth, args[1:]):
        true, false = true | other.true, false & other.false
    return Truth(true, false)


def _not(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    a = _truth(args[0])
    return Truth(a.false, a.true)


def _case(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    values = [*args[1::2], args[-1]]
    if expr.type.kind is not Kind.BOOL:
        result = values[0]
        for other in values[1:]:
            if not isinstance(result, Range) or not isinstance(other, Range):
                return _of_type(expr.type)
            result = _hull(result, other)
        return result
    true = false = ~_ANY
    reached = _ANY
    for condition, value in zip(map(_truth, args[:-1:2]), map(_truth, args[1::2]), strict=False):
        taken = reached & condition.true
        true, false = true | taken & value.true, false | taken & value.false
        reached = reached & condition.false
    last = _truth(args[-1])
    return Truth(true | reached & last.true, false | reached & last.false)


#: What is not here (remainders, bits, shifts, prefixes of text) lies in the bounds of its type.
_RULES: Mapping[Op, Callable[[Expr, Sequence[Bounds]], Bounds]] = {
    Op.CONST: _const,
    Op.ADD: _numbers(lambda a, b: (a.lo + b.lo, a.hi + b.hi)),
    Op.SUB: _numbers(lambda a, b: (a.lo - b.hi, a.hi - b.lo)),
    Op.MUL: _numbers(_product),
    Op.NEG: _numbers(lambda a: (-a.hi, -a.lo)),
    Op.ABS: _numbers(_absolute),
    Op.LEAST: _extreme(True),
    Op.GREATEST: _extreme(False),
    Op.LT: _compare(Op.LT),
    Op.LE: _compare(Op.LE),
    Op.EQ: _compare(Op.EQ),
    Op.AND: _and,
    Op.OR: _or,
    Op.NOT: _not,
    Op.CASE: _case,
    Op.CAST: _cast,
}
