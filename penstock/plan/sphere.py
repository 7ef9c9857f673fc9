"""Bounds of coordinates in space that follow from a bound of a distance on the sphere.

Points that are less than ``d`` apart along a great circle are less than the chord
``2 R sin(d / 2R)`` apart in space, and so is each coordinate. Unlike bands of latitude and
longitude, these hold at the poles and over the date line as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, pi

from ..expr import ops
from ..expr.functions import EARTH_RADIUS_M, RADIANS
from ..expr.node import Expr, Op

#: By what chords are made longer, for what rounding may hide: of the chord, and of the radius.
_SHARE, _LEAST = 2.0**-40, 2.0**-46


def coordinate_bounds(fact: Expr) -> Iterator[Expr]:
    """Comparisons that are TRUE wherever ``haversine(...) < d``, or ``<=``, is.

    Each is of a coordinate of either point, and of ``d``. None where points, or ``d``, are of both
    sides.
    """
    if fact.op not in (Op.LT, Op.LE):
        return
    (distance, factor), most = _unscaled(fact.args[0]), fact.args[1]
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
    for a, b in zip(*(_coordinates(*point) for point in points), strict=True):
        yield ops.le(ops.sub(a, chord), b)
        yield ops.le(b, ops.add(a, chord))


def _chord(most: Expr) -> Expr:
    half = ops.least(ops.mul(most, ops.const(0.5 / EARTH_RADIUS_M)), ops.const(pi / 2))
    chord = ops.mul(ops.call("sin", half), ops.const(2 * (1 + _SHARE)))
    chord = ops.add(chord, ops.const(_LEAST))
    if most.is_const:
        return chord
    return ops.case([(ops.lt(ops.const(inf), most), most)], chord)  # NaN is above every distance


def _coordinates(latitude: Expr, longitude: Expr) -> tuple[Expr, ...]:
    """A point of the unit sphere."""
    up, along = (ops.mul(angle, ops.const(RADIANS)) for angle in (latitude, longitude))
    out = ops.call("cos", up)
    x, y = (ops.mul(out, ops.call(name, along)) for name in ("cos", "sin"))
    return x, y, ops.call("sin", up)


def _unscaled(distance: Expr) -> tuple[Expr, float]:
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
