"""Exact interval arithmetic: the bounds of a result from the bounds of its operands.

Intervals are pairs of Python integers, both ends included. Every function is sound (the true
result is never outside) and, but for the bit operations and ``%``, tight.
"""

from __future__ import annotations

from collections.abc import Callable

from .node import Op

Interval = tuple[int, int]


def add(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def sub(a: Interval, b: Interval) -> Interval:
    return a[0] - b[1], a[1] - b[0]


def mul(a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def square(a: Interval) -> Interval:
    """Bounds of ``x * x`` where both factors are the same value."""
    low, high = absolute(a)
    return low * low, high * high


def absolute(a: Interval) -> Interval:
    low, high = sorted((abs(a[0]), abs(a[1])))
    return (0 if a[0] <= 0 <= a[1] else low), high


def mod(a: Interval, b: Interval) -> Interval:
    """Truncated remainder: the sign of the dividend, smaller than the divisor."""
    largest = max(abs(b[0]), abs(b[1]), 1) - 1
    return (
        -min(largest, -a[0]) if a[0] < 0 else 0,
        min(largest, a[1]) if a[1] > 0 else 0,
    )


def div(a: Interval, b: Interval) -> Interval:
    """Quotient rounded to 0: no larger than the dividend, and of its sign by positive divisors."""
    if b[0] > 0 or b[1] < 0:
        ends = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x in a for y in b]
        return min(ends), max(ends)
    largest = max(abs(a[0]), abs(a[1]))
    if b[0] < 0:
        return -largest, largest
    least, most = max(b[0], 1), max(b[1], 1)
    low = -(-a[0] // least) if a[0] < 0 else a[0] // most
    return low, a[1] // least if a[1] > 0 else -(-a[1] // most)


def _signed_range(a: Interval, b: Interval) -> Interval:
    bits = max(v.bit_length() if v >= 0 else (~v).bit_length() for v in (*a, *b))
    return -(1 << bits), (1 << bits) - 1


def bit_and(a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    if a[0] >= 0:
        return 0, a[1]
    if b[0] >= 0:
        return 0, b[1]
    return _signed_range(a, b)[0], max(a[1], b[1])


def bit_or(a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and b[0] >= 0:
        return max(a[0], b[0]), _signed_range(a, b)[1]
    return _signed_range(a, b)


def bit_xor(a: Interval, b: Interval) -> Interval:
    low, high = _signed_range(a, b)
    return (0 if a[0] >= 0 and b[0] >= 0 else low), high


def shr(a: Interval, n: Interval) -> Interval:
    ends = [x >> y for x in a for y in n]
    return min(ends), max(ends)


def hull(*parts: Interval) -> Interval:
    """The smallest interval with all of these in it."""
    return min(lo for lo, _ in parts), max(hi for _, hi in parts)


#: Bounds of an operation's result, for operations where its operands' bounds suffice.
BOUNDS: dict[Op, Callable[..., Interval]] = {
    Op.ADD: add,
    Op.SUB: sub,
    Op.MUL: mul,
    Op.NEG: lambda a: (-a[1], -a[0]),
    Op.ABS: absolute,
    Op.LEAST: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    Op.GREATEST: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    Op.MOD: mod,
    Op.DIV: div,
    Op.BIT_AND: bit_and,
    Op.BIT_OR: bit_or,
    Op.BIT_XOR: bit_xor,
    Op.BIT_NOT: lambda a: (~a[1], ~a[0]),
    Op.SHL: lambda a, n: mul(a, (1 << n[0], 1 << n[1])),
    Op.SHR: shr,
}
