"""Comparisons as one short carry chain.

A bit-by-bit comparison takes a LUT per bit. Here each link of the chain compares as many bits as
two LUTs of six inputs can; bits of constants are free. Bits that fit the LUT in front of the chain
or the one behind it are not part of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Signal, Value

from ..instance import Modules
from .delay import LUT_INPUTS

#: Inputs of the top link that are compared behind the chain, in the LUT that reads its result.
_TOP_INPUTS = 2

#: Platform of a build that is only simulated, where an operator is faster than a carry chain.
SIMULATION = "simulation"

_Bits = tuple[Value, Value]


def is_simulation(platform: object) -> bool:
    """Whether a platform's designs are only simulated."""
    return (platform.target if isinstance(platform, Modules) else platform) == SIMULATION


def at_most(
    m: Module,
    a: Value,
    b: Value,
    carry: Value | None = None,
    *,
    shared: bool = False,
    platform: object = None,
) -> Value:
    """``a + carry <= b``, exact for operands of any width and sign.

    Parameters
    ----------
    m : Module
        Where the chain goes.
    a, b : Value
        Integers.
    carry : Value, optional
        One bit; 0 by default.
    shared : bool
        Whether every bit of an operand depends on one more input, the carry if there is one. It
        matters only for the size of the links.
    platform : object
        Where it is :data:`SIMULATION` the comparison is left to the simulator's operator.
    """
    if is_simulation(platform):
        return a <= b if carry is None else a + carry <= b
    pairs = _aligned(a, b)
    top = _take([*reversed(pairs)], _TOP_INPUTS)[::-1]
    rest = pairs[: len(pairs) - len(top)]
    first = _take(rest, LUT_INPUTS - (shared or carry is not None))
    links, at = [], len(first)
    while at < len(rest):
        link = _take(rest[at:], LUT_INPUTS - shared)
        links.append(link)
        at += len(link)
    fits = _not_less(first, Const(1) if carry is None else ~carry)
    if links:
        # The links as digits of a difference that is negative where b is less. The first digit
        # is never zero, so that it needs no carry into the chain.
        greater, less = zip(*(_digit(link) for link in links), strict=True)
        # Linters take a name with `unused` in it as said on purpose: only the sign is of use.
        difference = Signal(len(links) + 2, name="unused_digits")
        m.d.comb += difference.eq(Cat(fits, *greater) - Cat(~fits, *less))
        fits = ~difference[-1]
    return _not_less(top, fits)


def equal(m: Module, a: Value, b: Value, *, platform: object = None) -> Value:
    """``a == b`` of unsigned integers, as a chain that no optimiser for area makes longer.

    Of many such comparisons in one cycle, mapping to LUTs alone makes paths of eight LUTs where
    three would do, if another path of the design is as long.
    """
    if is_simulation(platform):
        return a == b
    rest, digits = _aligned(a, b), []
    while rest:
        digit = _take(rest, LUT_INPUTS)
        rest = rest[len(digit) :]
        digits.append(Cat(~(x ^ y) for x, y in digit).all())
    # A carry runs through all digits that are 1.
    total = Signal(len(digits) + 1, name="unused_sum")
    m.d.comb += total.eq(Cat(digits) + 1)
    return total[-1]


def _digit(link: Sequence[_Bits]) -> _Bits:
    """Two bits whose difference has the sign of ``b - a``."""
    if len(link) == 1:
        a, b = link[0]
        return b, a
    return _not_less(link, Const(0)), ~_not_less(link, Const(1))


def _aligned(a: Value, b: Value) -> list[_Bits]:
    """Bit pairs of both operands as unsigned numbers of one width, lowest first."""
    a_shape, b_shape = a.shape(), b.shape()
    signed = a_shape.signed or b_shape.signed
    width = max(shape.width + (signed and not shape.signed) for shape in (a_shape, b_shape))
    pairs = list(zip(_bits(a, width), _bits(b, width), strict=True))
    if signed and pairs:
        a_sign, b_sign = pairs[-1]
        pairs[-1] = b_sign, a_sign
    return pairs


def _bits(value: Value, width: int) -> list[Value]:
    if isinstance(value, Const):
        return [Const(value.value >> bit & 1) for bit in range(width)]
    own = len(value)
    fill = value[-1] if own and value.shape().signed else Const(0)
    return [value[bit] if bit < own else fill for bit in range(width)]


def _take(pairs: Sequence[_Bits], inputs: int) -> list[_Bits]:
    """The longest prefix of the pairs that has at most this many inputs."""
    taken = []
    for pair in pairs:
        inputs -= sum(not isinstance(bit, Const) for bit in pair)
        if inputs < 0:
            break
        taken.append(pair)
    return taken


def _not_less(pairs: Sequence[_Bits], below: Value) -> Value:
    """Whether b is greater, or equal and ``below`` holds."""
    for a, b in pairs:
        below = b & ~a | ~(a ^ b) & below
    return below
