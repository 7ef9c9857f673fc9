"""Bounds of keys that follow from a comparison of floats, widened by what rounding may hide.

``l.x - r.x <= d`` in floats is not ``r.x >= l.x - d``: the difference is rounded, and so is the
bound. But it does say that ``r.x`` is not below ``l.x - d`` by more than a small share of ``l.x``
and ``d``. A comparison is taken apart operation by operation, from outside to inside: from an upper
bound of what an operation gives follows one of its operand, widened by

- the rounding of the operation, which is a share of its result, and never swaps two values;
- the underflow of a product, an absolute error that a root makes much larger;
- the rounding of the new bound itself, which is computed in float64.

NaN is above every number. ``x <= d`` is FALSE where x is NaN and d is not, so that x is then known
to be no NaN; ``d <= x`` is TRUE. A bound that comes out as NaN lets every key pass, and so does one
that is infinite towards the outside; one that is infinite towards the inside may be a number that
overflowed, and is held back to a finite one.

A bound of a distance on the sphere gives such comparisons, too. Points that are less than ``d``
apart along a great circle are less than the chord ``2 R sin(d / 2R)`` apart in space, and so is
each coordinate. Unlike bands of latitude and longitude, these hold at the poles and over the date
line as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, isfinite, log2, nan, pi, sqrt

from ..expr import ops
from ..expr.functions import EARTH_RADIUS_M, RADIANS
from ..expr.node import Expr, Op, once_per_node
from ..types import FLOAT64, Kind, Type
from .band import Bound, NotBandError
from .linear import Linear, factors, linear
from .narrowing import Half, halves_of_sums
from .simplify import simplify


@dataclass(frozen=True)
class _Rounding:
    """How a type of floats rounds.

    Parameters
    ----------
    share : float
        Several times the largest relative error of one operation.
    tiny : float
        The least positive number: twice the largest error of a product that underflows.
    most : float
        Half of the largest power of two: what overflows is beyond it even before it is rounded.
    """

    share: float
    tiny: float
    most: float


_DOUBLE = _Rounding(2.0**-49, 2.0**-1074, 2.0**1022)
_SINGLE = _Rounding(2.0**-21, 2.0**-149, 2.0**126)
#: Constant factors of a product lie within this power of two, so that little of it is lost to
#: overflow or underflow between them.
_MOST_EXPONENT = 24
#: Constant factors of a square, at most: each of them rounds.
_MOST_FACTORS = 3
#: Operations of a comparison that are taken apart.
_MAX_STEPS = 200


def widened(atom: Expr, window: str) -> list[Half]:
    """Bounds that follow from a comparison of floats.

    Raises
    ------
    NotBandError
        There are none.
    """
    a, b = atom.args
    if window in a.sides and window in b.sides:
        raise NotBandError("both operands of {} depend on the window's rows", atom)
    widener = _Widener(window, a if window in b.sides else b)
    if window in a.sides:
        halves = list(widener.at_most(a, 1, b, False))
        if atom.op is Op.EQ:
            halves += widener.at_most(a, -1, ops.neg(b), False)
    else:
        halves = list(widener.at_most(b, -1, ops.neg(a), atom.op is not Op.EQ))
        if atom.op is Op.EQ:
            halves += widener.at_most(b, 1, a, False)
    if not halves:
        raise widener.refusal or NotBandError("{} bounds no key", atom)
    return list(dict.fromkeys(halves))


class _Widener:
    """Takes one comparison apart; ``refusal`` says why a part of it gives no bound.

    ``at_most`` and what it calls know that ``sign * value <= high`` where the comparison is TRUE,
    or that the value is NaN; without ``may_nan`` the latter only where the bound is NaN, too.
    """

    def __init__(self, window: str, bound: Expr) -> None:
        self.window = window
        #: None for a constant, which is no NaN.
        self.bound = None if bound.is_const else bound
        self.refusal: NotBandError | None = None
        self.steps = 0

    def refuse(self, reason: str, *parts: Expr) -> None:
        self.refusal = self.refusal or NotBandError(reason, *parts)

    def at_most(self, value: Expr, sign: int, high: Expr, may_nan: bool) -> Iterator[Half]:
        """Bounds of keys in ``value``."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise NotBandError(f"more than {_MAX_STEPS} operations of {{}} would be undone", value)
        if high.is_const and (high.attr is None or not isfinite(high.attr)):
            self.refuse("{} is no bound", high)
            return
        inner = list(self.operands_at_most(value, sign, high, may_nan))
        if inner or value.sides != {self.window}:
            yield from inner
            return
        high, key = _held_back(high, value.type), ops.to_float(value)
        bound = Bound(simplify(high if sign > 0 else _negated(high)))
        yield Half(key, bound, sign > 0, passes_nan=may_nan, nan_where=self.bound)

    def operands_at_most(self, value: Expr, sign: int, high: Expr, may_nan: bool) -> Iterator[Half]:
        op = value.op
        if not value.args or not value.type.is_float:
            return
        if op is Op.NEG:
            yield from self.at_most(value.args[0], -sign, high, may_nan)
        elif op is Op.ABS and sign > 0:
            for way in (1, -1):
                yield from self.at_most(value.args[0], way, high, may_nan)
        elif op in (Op.ADD, Op.SUB):
            yield from self.sum_at_most(value, sign, high, may_nan)
        elif op is Op.MUL:
            yield from self.product_at_most(value, sign, high, may_nan)
        elif op is Op.CAST:
            yield from self.cast_at_most(value, sign, high, may_nan)
        elif op is (Op.GREATEST if sign > 0 else Op.LEAST):
            yield from self.extreme_at_most(value, sign, high, may_nan)
        elif op in (Op.ABS, Op.GREATEST, Op.LEAST):
            self.refuse("{} is bounded from the other side only", value)
        else:
            self.refuse("{} mixes both sides", value)

    def extreme_at_most(self, value: Expr, sign: int, high: Expr, may_nan: bool) -> Iterator[Half]:
        """Bounds of the operands of GREATEST, or of the negated operands of LEAST."""
        if sign > 0 and may_nan:
            self.refuse("{} passes where one of its values is NaN", value)
            return
        for choice in value.args:
            # Where another one is NULL, it is still one of the values.
            if choice.type.nullable:
                self.refuse("{} skips NULL", value)
            elif self.window in choice.sides:
                # LEAST is a number where one of its values is.
                yield from self.at_most(choice, sign, high, may_nan or sign < 0)

    def sum_at_most(self, value: Expr, sign: int, high: Expr, may_nan: bool) -> Iterator[Half]:
        a, b = value.args
        signs = sign, sign if value.op is Op.ADD else -sign
        for (part, of_part), (other, of_other) in (
            ((a, signs[0]), (b, signs[1])),
            ((b, signs[1]), (a, signs[0])),
        ):
            if self.window not in part.sides:
                continue
            moved: list[Half] = []
            if self.window not in other.sides:
                moved_bound = _less(high, other, of_other, value.type)
                moved = list(self.at_most(part, of_part, moved_bound, may_nan))
            if moved:
                yield from moved
            elif may_nan:
                self.refuse("{} passes where {} is NaN", value, other)
            elif _sign(other) != of_other:
                self.refuse("{} is not known to be of one sign", other)
            else:
                # Without it the sum is not larger, rounded or not, and one operand is not rounded.
                yield from self.at_most(part, of_part, high, may_nan)

    def product_at_most(self, value: Expr, sign: int, high: Expr, may_nan: bool) -> Iterator[Half]:
        constants, values = _factors(value)
        spread, scale = 0.0, 1.0
        for constant in constants:
            if not 2.0**-_MOST_EXPONENT <= abs(constant) <= 2.0**_MOST_EXPONENT:
                self.refuse("{} has a factor too large or too small", value)
                return
            spread += abs(log2(abs(constant)))
            scale *= constant
        if scale < 0:
            sign, scale = -sign, -scale
        rounding = _rounding(value.type)
        lost = rounding.tiny * 2.0 ** (2 * spread + 4)
        if len(values) == 1 and len(constants) == 1:
            high = _held_back(high, value.type)
            part = _times(high, 1 / scale)
            slack = _plus(_times(_size(high), rounding.share / scale), ops.const(lost))
            yield from self.at_most(values[0], sign, _plus(part, slack), may_nan)
        elif len(values) != 2 or values[0] is not values[1] or len(constants) > _MOST_FACTORS:
            self.refuse("{} mixes both sides", value)
        elif sign < 0:
            self.refuse("{} is bounded from the other side only", value)
        else:
            root = self.root(high, scale, rounding, lost)
            if root is not None:
                for way in (1, -1):
                    yield from self.at_most(values[0], way, root, may_nan)

    def root(self, high: Expr, scale: float, rounding: _Rounding, lost: float) -> Expr | None:
        """Bound of ``abs(x)`` where ``scale * x * x`` is at most ``high``.

        ``lost`` is the most that underflow may have taken from the product.
        """
        extra = sqrt(lost) + lost
        if high.is_const:
            return ops.const(sqrt(max(high.attr, 0.0) / scale) * (1 + rounding.share) + extra)
        inner = high.args[0] if high.op is Op.CAST and high.args[0].type.is_float else high
        if inner.op is not Op.MUL or inner.args[0] is not inner.args[1]:
            self.refuse("{} is no constant and no square, so that its root is not known", high)
            return None
        theirs = _rounding(inner.type)
        share = 1 + rounding.share + theirs.share
        size = _size(ops.to_float(inner.args[0]))
        least = sqrt(theirs.tiny) * 2 + extra
        near = _plus(_times(size, share / sqrt(scale)), ops.const(least * (1 + 1 / sqrt(scale))))
        # A square that overflows bounds nothing.
        high = ops.to_float(high)
        return ops.case([(ops.le(ops.const(inf), high), high)], near)

    def cast_at_most(self, value: Expr, sign: int, high: Expr, may_nan: bool) -> Iterator[Half]:
        (inner,) = value.args
        rounding = _rounding(value.type)
        if inner.type.is_float:
            if value.type.kind is Kind.FLOAT32:
                high = _held_back(high, value.type)
                slack = _plus(_times(_size(high), rounding.share), ops.const(rounding.tiny))
                high = _plus(high, slack)
            yield from self.at_most(inner, sign, high, may_nan)
        elif inner.type.is_integral and high.is_const:
            high = _held_back(high, value.type)
            limit = Fraction(high.attr) + abs(Fraction(high.attr)) * Fraction(rounding.share)
            whole = floor(limit * 10**inner.type.scale) + 1
            below = linear(inner).scaled(sign).plus(Linear((), -whole))
            try:
                yield from halves_of_sums([below], self.window, value)
            except NotBandError as error:
                self.refusal = self.refusal or error
        else:
            self.refuse("{} is converted from both sides", value)


def _rounding(dtype: Type) -> _Rounding:
    return _SINGLE if dtype.kind is Kind.FLOAT32 else _DOUBLE


def _factors(value: Expr) -> tuple[list[float], list[Expr]]:
    """The constants of a product, and its other factors; of a large one, the operands."""
    parts = None if value.args[0] is value.args[1] else factors(value)
    if parts is None or not all(map(isfinite, parts[0])):
        return [], list(value.args)
    return parts


@once_per_node
def _sign(value: Expr) -> int:
    """1 for a number that is never negative, -1 for one that never is positive, else 0; or NaN."""
    op, args = value.op, value.args
    if value.is_const:
        number = value.attr
        return 0 if number is None or number != number else 1 if number >= 0 else -1
    if value.type.is_integral:
        return 1 if value.type.lo >= 0 else -1 if value.type.hi <= 0 else 0
    if op is Op.ABS or (op is Op.MUL and args[0] is args[1]):
        return 1
    if op is Op.NEG:
        return -_sign(args[0])
    if op is Op.CAST and (args[0].type.is_float or args[0].type.is_integral):
        return _sign(args[0])
    if op is Op.MUL:
        constants, values = _factors(value)
        product = 1
        for constant in constants:
            product *= 1 if constant >= 0 else -1
        if len(values) == 2 and values[0] is values[1]:
            return product
        return _sign(args[0]) * _sign(args[1])
    if op in (Op.ADD, Op.SUB):
        first, second = _sign(args[0]), _sign(args[1]) * (1 if op is Op.ADD else -1)
        return first if first == second else 0
    if op in (Op.GREATEST, Op.LEAST):
        signs = {_sign(arg) for arg in args}
        return signs.pop() if len(signs) == 1 else 0
    return 0


# -- bounds, computed in float64 ------------------------------------------------------------------


def _plus(a: Expr, b: Expr) -> Expr:
    return simplify(ops.add(ops.to_float(a), ops.to_float(b)))


def _times(value: Expr, factor: float) -> Expr:
    return simplify(ops.mul(ops.to_float(value), ops.const(factor)))


def _size(value: Expr) -> Expr:
    return simplify(ops.absolute(ops.to_float(value)))


def _less(high: Expr, other: Expr, sign: int, dtype: Type) -> Expr:
    """Upper bound of the operand that ``sign * other`` is added to, giving at most ``high``."""
    high, other = _held_back(high, dtype), ops.to_float(other)
    difference = simplify((ops.sub if sign > 0 else ops.add)(high, other))
    slack = _plus(_times(_size(high), _rounding(dtype).share), _times(_size(other), _DOUBLE.share))
    return _plus(difference, _plus(slack, ops.const(_DOUBLE.tiny)))


def _held_back(high: Expr, dtype: Type) -> Expr:
    """An upper bound that is not so low that only the overflow of a value is below it."""
    least = ops.const(-_rounding(dtype).most)
    high = ops.to_float(high)
    return simplify(ops.case([(ops.lt(high, least), least)], high))


def _negated(high: Expr) -> Expr:
    """Lower bound of a key whose negative is at most ``high``; -inf where that is NaN."""
    return ops.case([(ops.lt(ops.const(inf), high), ops.const(-inf))], ops.neg(high))


def passing_nan(bound: Expr, guard: Expr) -> Expr:
    """An upper bound that lets NaN pass where the guard is NaN."""
    is_nan = ops.lt(ops.const(inf), ops.to_float(guard))
    return simplify(ops.case([(is_nan, ops.const(nan, FLOAT64))], bound))


#: By what chords are made longer, for what rounding may hide: of the chord, and of the radius.
_SHARE, _LEAST = 2.0**-40, 2.0**-46


def coordinate_bounds(fact: Expr) -> Iterator[Expr]:
    """Comparisons that are TRUE wherever ``haversine(...) < d``, or ``<=``, is.

    Each is of a coordinate of either point, and of ``d``. None where points, or ``d``, are of both
    sides.
    """
    if fact.op not in (Op.LT, Op.LE):
        return
    (distance, factor), most = unscaled(fact.args[0]), fact.args[1]
    if distance.op is not Op.FUNCTION or distance.attr != "haversine" or len(most.sides) > 1:
        return
    most = ops.call("divide", most, ops.const(factor))
    points = distance.args[:2], distance.args[2:]
    sides = [frozenset().union(*(arg.sides for arg in point)) for point in points]
    if any(len(one) != 1 for one in sides) or sides[0] == sides[1]:
        return
    if most.sides == sides[1]:
        points = points[::-1]
    chord = _chord(most)
    for a, b in zip(*(coordinates(*point) for point in points), strict=True):
        yield ops.le(ops.sub(a, chord), b)
        yield ops.le(b, ops.add(a, chord))


def _chord(most: Expr) -> Expr:
    half = ops.least(ops.mul(most, ops.const(0.5 / EARTH_RADIUS_M)), ops.const(pi / 2))
    chord = ops.mul(ops.call("sin", half), ops.const(2 * (1 + _SHARE)))
    chord = ops.add(chord, ops.const(_LEAST))
    if most.is_const:
        return chord
    return ops.case([(ops.lt(ops.const(inf), most), most)], chord)  # NaN is above every distance


def coordinates(latitude: Expr, longitude: Expr) -> tuple[Expr, ...]:
    """A point of the unit sphere."""
    up, along = (ops.mul(angle, ops.const(RADIANS)) for angle in (latitude, longitude))
    out = ops.call("cos", up)
    x, y = (ops.mul(out, ops.call(name, along)) for name in ("cos", "sin"))
    return x, y, ops.call("sin", up)


def unscaled(distance: Expr) -> tuple[Expr, float]:
    """Split off a constant factor, as of kilometres; return the other operand and the factor."""
    factor = 1.0
    while distance.op is Op.MUL or (distance.op is Op.FUNCTION and distance.attr == "divide"):
        value, other = distance.args
        if distance.op is Op.MUL and value.is_const:
            value, other = other, value
        if not other.is_const or other.attr is None or not 0 < float(other.attr) < inf:
            break
        factor = factor * float(other.attr) if distance.op is Op.MUL else factor / float(other.attr)
        distance = value
    return distance, factor
