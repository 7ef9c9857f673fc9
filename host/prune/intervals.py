"""Interval arithmetic over the predicate of a general program, for many boxes of keys at once.

Bounds are float64. Integers that float64 may not hold are rounded outwards, so that every bound is
sound. Floats are rounded as on devices, which never swaps the order of two values. NaN is above
everything and is carried beside the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from penstock.expr.compute import compute
from penstock.expr.node import Expr, Op
from penstock.types import Kind, Type

#: Integers up to this magnitude are exact in float64.
_EXACT = 1 << 53
#: Integers below this magnitude have a finite float64, and so have their sums.
_FINITE = 1 << 1022
_YES = np.ones((1, 1), bool)
_NO = ~_YES


@dataclass(frozen=True)
class Range:
    """Numbers in ``[lo, hi]``, and NaN where ``nan``; arrays that can be broadcast together.

    ``lo > hi`` where there is no number.
    """

    lo: np.ndarray
    hi: np.ndarray
    nan: np.ndarray = field(default_factory=lambda: _NO)

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Range:
        """The range with each of its arrays changed."""
        return Range(change(self.lo), change(self.hi), change(self.nan))


@dataclass(frozen=True)
class Truth:
    """Whether a condition may be true, and whether it may be false; arrays of bool."""

    true: np.ndarray
    false: np.ndarray

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Truth:
        """As :meth:`Range.each`."""
        return Truth(change(self.true), change(self.false))


Bounds = Range | Truth

_UNKNOWN = Truth(_YES, _YES)
_Rule = Callable[[Expr, Sequence[Bounds]], Bounds]


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
        return unbounded(current.type)

    with np.errstate(all="ignore"):
        return _truth(compute(predicate, rule))


def range_of(lo: np.ndarray, hi: np.ndarray, dtype: Type, nan: np.ndarray = _NO) -> Range:
    """Bounds of a key from columns of its lower and upper bounds."""
    low, high = np.asarray(lo, np.float64), np.asarray(hi, np.float64)
    return _outwards(low, high, dtype) if dtype.is_integral else Range(low, high, nan)


def unbounded(dtype: Type) -> Bounds:
    """The bounds that follow from a value's type."""
    if dtype.kind is Kind.BOOL:
        return _UNKNOWN
    if dtype.is_integral and _is_finite(dtype):
        return _outwards(_one(dtype.lo), _one(dtype.hi), dtype)
    return Range(_one(-np.inf), _one(np.inf), _YES if dtype.is_float else _NO)


def _one(value: float) -> np.ndarray:
    """A bound shared by all boxes."""
    return np.full((1, 1), float(value))


def _outwards(lo: np.ndarray, hi: np.ndarray, dtype: Type) -> Range:
    if dtype.lo >= -_EXACT and dtype.hi <= _EXACT:
        return Range(lo, hi)
    return Range(np.nextafter(lo, -np.inf), np.nextafter(hi, np.inf))


def _is_finite(dtype: Type) -> bool:
    return dtype.lo > -_FINITE and dtype.hi < _FINITE


def _truth(found: Bounds) -> Truth:
    return found if isinstance(found, Truth) else _UNKNOWN


def _const(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    value = expr.attr
    if isinstance(value, bool):
        return Truth(*((_YES, _NO) if value else (_NO, _YES)))
    if isinstance(value, float) and np.isnan(value):
        return Range(_one(np.inf), _one(-np.inf), _YES)
    if isinstance(value, float) or (isinstance(value, int) and _is_finite(expr.type)):
        return range_of(_one(value), _one(value), expr.type)
    return unbounded(expr.type)


def _numbers(compute: Callable[..., tuple[np.ndarray, np.ndarray]]) -> _Rule:
    """Rule for an operation on numbers whose bounds are ``compute`` of its operands' bounds."""

    def apply(expr: Expr, args: Sequence[Bounds]) -> Bounds:
        ranges = [a for a in args if isinstance(a, Range)]
        types = (expr.type, *(a.type for a in expr.args))
        if len(ranges) < len(args) or not all(map(_is_finite, types)):
            return unbounded(expr.type)
        is_square = expr.op is Op.MUL and expr.args[0] is expr.args[1]
        lo, hi = _square(ranges[0]) if is_square else compute(*ranges)
        if expr.type.is_integral:
            return _outwards(lo, hi, expr.type)
        return _floats(expr.type, lo, hi, ranges)

    return apply


def _floats(dtype: Type, lo: np.ndarray, hi: np.ndarray, args: Sequence[Range]) -> Range:
    """Bounds of a float: unbounded where an operand has no number, or infinities meet."""
    strange = np.isnan(lo) | np.isnan(hi)
    for a in args:
        strange = strange | (a.lo > a.hi) | np.isinf(a.lo) | np.isinf(a.hi)
    lo, hi = np.where(strange, -np.inf, lo), np.where(strange, np.inf, hi)
    return Range(*_rounded(dtype, lo, hi), reduce(np.logical_or, (a.nan for a in args)) | strange)


def _rounded(dtype: Type, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of a float as a device rounds them to its type."""
    if dtype.kind is not Kind.FLOAT32:
        return lo, hi
    return lo.astype(np.float32).astype(np.float64), hi.astype(np.float32).astype(np.float64)


def _product(a: Range, b: Range) -> tuple[np.ndarray, np.ndarray]:
    ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return reduce(np.minimum, ends), reduce(np.maximum, ends)


def _square(a: Range) -> tuple[np.ndarray, np.ndarray]:
    return _even(a, a.lo * a.lo, a.hi * a.hi)


def _even(a: Range, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of a square or magnitude, from its values at both ends of a range."""
    has_zero = (a.lo <= 0) & (a.hi >= 0)
    return np.where(has_zero, 0.0, np.minimum(low, high)), np.maximum(low, high)


def _extreme(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    a, b = args
    if not isinstance(a, Range) or not isinstance(b, Range) or expr.type.is_float:
        return _either(expr.type, a, b)  # one float may be NaN: the other is the result
    pick = np.minimum if expr.op is Op.LEAST else np.maximum
    return Range(pick(a.lo, b.lo), pick(a.hi, b.hi))


def _either(dtype: Type, a: Bounds, b: Bounds) -> Bounds:
    """Bounds of a number that is one of two numbers."""
    if not isinstance(a, Range) or not isinstance(b, Range):
        return unbounded(dtype)
    return Range(np.minimum(a.lo, b.lo), np.maximum(a.hi, b.hi), a.nan | b.nan)


def _cast(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    (a,) = args
    source, target = expr.args[0].type, expr.type
    # Casts of decimals and times may scale; a change of width only keeps the bounds.
    same = source.scale == target.scale == 0 and source.unit == target.unit
    if not isinstance(a, Range) or not same or (source.is_float and not target.is_float):
        return unbounded(target)
    return Range(*_rounded(target, a.lo, a.hi), a.nan)


def _compare(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    a, b = args
    if not isinstance(a, Range) or not isinstance(b, Range):
        return _UNKNOWN
    if expr.op is Op.LT:
        return Truth((a.lo < b.hi) | b.nan, (a.hi >= b.lo) | a.nan)
    if expr.op is Op.LE:
        return Truth((a.lo <= b.hi) | b.nan, (a.hi > b.lo) | a.nan)
    meet = (a.lo <= b.hi) & (b.lo <= a.hi)
    one = (a.lo == a.hi) & (b.lo == b.hi) & (a.lo == b.lo)
    return Truth(meet | (a.nan & b.nan), ~one | a.nan | b.nan)


def _junction(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    a, b = map(_truth, args)
    if expr.op is Op.AND:
        return Truth(a.true & b.true, a.false | b.false)
    return Truth(a.true | b.true, a.false & b.false)


def _not(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    a = _truth(args[0])
    return Truth(a.false, a.true)


def _case(expr: Expr, args: Sequence[Bounds]) -> Bounds:
    if expr.type.kind is not Kind.BOOL:
        return _either(expr.type, args[1], args[2])
    taken, value, otherwise = map(_truth, args)
    return Truth(
        taken.true & value.true | taken.false & otherwise.true,
        taken.true & value.false | taken.false & otherwise.false,
    )


#: Other operations (remainders, bits, shifts, prefixes of text) have the bounds of their type.
_RULES: Mapping[Op, _Rule] = {
    Op.CONST: _const,
    Op.ADD: _numbers(lambda a, b: (a.lo + b.lo, a.hi + b.hi)),
    Op.SUB: _numbers(lambda a, b: (a.lo - b.hi, a.hi - b.lo)),
    Op.MUL: _numbers(_product),
    Op.NEG: _numbers(lambda a: (-a.hi, -a.lo)),
    Op.ABS: _numbers(lambda a: _even(a, np.abs(a.lo), np.abs(a.hi))),
    **dict.fromkeys((Op.LEAST, Op.GREATEST), _extreme),
    **dict.fromkeys((Op.LT, Op.LE, Op.EQ), _compare),
    **dict.fromkeys((Op.AND, Op.OR), _junction),
    Op.NOT: _not,
    Op.CASE: _case,
    Op.CAST: _cast,
}
