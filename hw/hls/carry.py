"""Absolute values without adders of their own.

``abs(x)`` is x with all bits inverted if it is negative, plus its sign bit. The inversion is part
of the LUT that reads it, and the bit enters the addition or comparison behind it as a carry.

A sum of two such values, ``-x if s else x`` and ``-y if u else y``, is ``x + y`` or ``x - y`` with
the sign s: one inversion less, and again a value with a sign.

Two operations take a carry as a third argument: ``ADD(a, b, c)`` is ``a + b + c``, and
``LE(a, b, c)`` is ``a + c <= b``. It is a condition cast to an integer.
"""

from __future__ import annotations

from penstock.expr.node import Expr, Op, node, transform
from penstock.types import BOOL, Kind, integer

from .delay import is_inversion

_BOOL = BOOL.as_nullable(False)
_BIT = integer(0, 1, nullable=False)


def absorb_carries(expr: Expr) -> Expr:
    """An equal expression with fewer carry chains; sub-expressions that stay keep their values."""
    return transform(expr, _rewrite)


def _rewrite(old: Expr, args: tuple[Expr, ...]) -> Expr:
    rule = _RULES.get(old.op)
    made = rule(old, *args) if rule and all(arg.type.is_integral for arg in args) else None
    return made or node(old.op, args, old.type, old.attr)


def _absolute(old: Expr, x: Expr) -> Expr | None:
    if x.type.lo >= 0:
        return x
    sign = node(Op.LT, (x, _const(0)), _BOOL)
    size = _inverse_if(sign, x, 0, max(x.type.hi, -1 - x.type.lo))
    return node(Op.ADD, (size, _bit(sign)), old.type)


def _sum(old: Expr, a: Expr, b: Expr) -> Expr | None:
    if (left := _signed(a)) and (right := _signed(b)):
        return _signed_sum(old, *left, *right)
    (a, carry), (b, second) = _split(a), _split(b)
    if carry is None:
        carry, second = second, None
    return None if carry is None else _plus(_add(a, b, carry), second, old)


def _signed_sum(old: Expr, sign: Expr, x: Expr, other: Expr, y: Expr) -> Expr:
    differ = node(Op.NOT, (node(Op.EQ, (sign, other), _BOOL),), _BOOL)
    lo, hi = min(y.type.lo, -1 - y.type.hi), max(y.type.hi, -1 - y.type.lo)
    total = _add(x, _inverse_if(differ, y, lo, hi), _bit(differ))
    size = _inverse_if(sign, total, old.type.lo - 1, old.type.hi)
    return node(Op.ADD, (size, _bit(sign)), old.type)


def _difference(old: Expr, a: Expr, b: Expr) -> Expr | None:
    (a, over), (b, under) = _split(a), _split(b)
    if under is not None:
        return _plus(_add(a, _inverse(b), _opposite(under)), over, old)
    if over is None:
        return None
    rest = _integer(Op.SUB, a.type.lo - b.type.hi, a.type.hi - b.type.lo, a, b)
    return _plus(rest, over, old)


def _negative(old: Expr, x: Expr) -> Expr | None:
    x, carry = _split(x)
    return None if carry is None else _plus(_inverse(x), _opposite(carry), old)


def _less(old: Expr, a: Expr, b: Expr) -> Expr | None:
    low, under = _split(a)
    high, over = _split(b)
    if over is not None:
        return node(Op.LE, (a, high, _opposite(over)), old.type)
    if under is not None and b.is_const:
        return node(Op.LE, (low, _const(b.attr - 1), under), old.type)
    if signed := _signed(a):
        # The carry is taken already where 1 is to be subtracted: 0 < b - a.
        sign, x = signed
        opposite = node(Op.NOT, (sign,), _BOOL)
        size = _inverse_if(opposite, x, -1 - low.type.hi, -1 - low.type.lo)
        return node(Op.LT, (_const(0), _add(b, size, _bit(opposite))), old.type)
    return None


def _at_most(old: Expr, a: Expr, b: Expr) -> Expr | None:
    low, under = _split(a)
    high, over = _split(b)
    if under is not None:
        return node(Op.LE, (low, b, under), old.type)
    if over is not None and a.is_const:
        return node(Op.LE, (_const(a.attr - 1), high, _opposite(over)), old.type)
    return None


_RULES = {
    Op.ABS: _absolute,
    Op.ADD: _sum,
    Op.SUB: _difference,
    Op.NEG: _negative,
    Op.LT: _less,
    Op.LE: _at_most,
}


def _split(expr: Expr) -> tuple[Expr, Expr | None]:
    """A sum of a number and a bit, taken apart."""
    if expr.op is Op.ADD and len(expr.args) == 2:
        first, second = expr.args
        if _is_bit(second):
            return first, second
        if _is_bit(first):
            return second, first
    return expr, None


def _signed(expr: Expr) -> tuple[Expr, Expr] | None:
    """Sign and x of an expression of the form ``-x if sign else x``."""
    size, bit = _split(expr)
    if bit is not None and is_inversion(size) and size.args[0] is bit.args[0]:
        return size.args[0], size.args[2]
    return None


def _is_bit(expr: Expr) -> bool:
    return expr.op is Op.CAST and expr.args[0].type.kind is Kind.BOOL


def _bit(condition: Expr) -> Expr:
    return node(Op.CAST, (condition,), _BIT)


def _opposite(bit: Expr) -> Expr:
    return _bit(node(Op.NOT, bit.args, _BOOL))


def _inverse(x: Expr) -> Expr:
    return _integer(Op.BIT_NOT, -1 - x.type.hi, -1 - x.type.lo, x)


def _inverse_if(condition: Expr, x: Expr, lo: int, hi: int) -> Expr:
    return _integer(Op.CASE, lo, hi, condition, _inverse(x), x)


def _add(a: Expr, b: Expr, carry: Expr) -> Expr:
    return _integer(Op.ADD, a.type.lo + b.type.lo, a.type.hi + b.type.hi + 1, a, b, carry)


def _plus(core: Expr, bit: Expr | None, old: Expr) -> Expr:
    """The sum in place of an old node, whose bounds hold for it too."""
    if bit is None:
        return node(core.op, core.args, old.type)
    return node(Op.ADD, (core, bit), old.type)


def _integer(op: Op, lo: int, hi: int, *args: Expr) -> Expr:
    return node(op, args, integer(lo, hi, nullable=False))


def _const(value: int) -> Expr:
    return node(Op.CONST, (), integer(value, value, nullable=False), value)
