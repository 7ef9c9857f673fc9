"""Rewrite operations that hardware has no operator for into ones that it has.

After lowering, every node is a constant, a key, or one of the operations that
:mod:`penstock.hw.hls.delay` has a delay for and :mod:`penstock.hw.hls.datapath` has logic for, so
the scheduler can place each step of a long operation in a stage of its own.
"""

from __future__ import annotations

from penstock.errors import DeviceError
from penstock.expr.node import Expr, Op, node, transform
from penstock.expr.ops import raw_factor
from penstock.program import GeneralProgram
from penstock.types import BOOL, Kind, integer

from .carry import absorb_carries
from .check import refusal

_BOOL = BOOL.as_nullable(False)


def lower(program: GeneralProgram) -> Expr:
    """The program's predicate in terms of the operations that can be built.

    Raises
    ------
    DeviceError
        The predicate has a part that cannot be built.
    """
    if reason := refusal(program):
        raise DeviceError(reason)
    return absorb_carries(transform(program.predicate, _lower_node))


def lower_value(program: GeneralProgram) -> Expr:
    """The program's value in terms of the operations that can be built.

    Raises
    ------
    DeviceError
        The program has no value, or one with a part that cannot be built.
    """
    if program.value is None:
        raise DeviceError("the program has no value that could be folded")
    if reason := refusal(program, value=True):
        raise DeviceError(reason)
    return absorb_carries(transform(program.value, _lower_node))


def _lower_node(old: Expr, args: tuple[Expr, ...]) -> Expr:
    if old.op is Op.MOD:
        return _remainder(args[0], abs(args[1].attr))
    if old.op in (Op.LEAST, Op.GREATEST):
        return _tree(old.op, args)
    if old.op is Op.CAST and old.args[0].type.kind is not Kind.BOOL:
        factor = raw_factor(old.args[0].type, old.type)
        assert factor is not None  # a cast that may round was refused
        return args[0] if factor == 1 else _times(args[0], factor)
    return node(old.op, args, old.type, old.attr)


def _integer(op: Op, lo: int, hi: int, *args: Expr) -> Expr:
    return node(op, args, integer(lo, hi, nullable=False))


def _const(value: int) -> Expr:
    return node(Op.CONST, (), integer(value, value, nullable=False), value)


def _times(arg: Expr, factor: int) -> Expr:
    return _integer(Op.MUL, arg.type.lo * factor, arg.type.hi * factor, arg, _const(factor))


def _tree(op: Op, args: tuple[Expr, ...]) -> Expr:
    """A balanced tree of two-argument LEAST or GREATEST."""
    if len(args) == 1:
        return args[0]
    half = len(args) // 2
    left, right = _tree(op, args[:half]), _tree(op, args[half:])
    pick = min if op is Op.LEAST else max
    lo, hi = pick(left.type.lo, right.type.lo), pick(left.type.hi, right.type.hi)
    return _integer(op, lo, hi, left, right)


def _remainder(dividend: Expr, divisor: int) -> Expr:
    """``dividend % divisor``, which takes the sign of the dividend, for a positive constant."""
    lo, hi = dividend.type.lo, dividend.type.hi
    if -divisor < lo and hi < divisor:
        return dividend
    if lo >= 0:
        return _unsigned_remainder(dividend, divisor)
    size = _unsigned_remainder(_integer(Op.ABS, 0, max(-lo, hi), dividend), divisor)
    most = size.type.hi
    negative = node(Op.LT, (dividend, _const(0)), _BOOL)
    negated = _integer(Op.NEG, -most, 0, size)
    return _integer(Op.CASE, -most, most, negative, negated, size)


def _unsigned_remainder(dividend: Expr, divisor: int) -> Expr:
    """Restoring division: one subtraction per quotient bit, whose sign selects."""
    if divisor & (divisor - 1) == 0:
        return _integer(Op.BIT_AND, 0, divisor - 1, dividend, _const(divisor - 1))
    rest = dividend
    for shift in reversed(range((dividend.type.hi // divisor).bit_length())):
        step, most = divisor << shift, rest.type.hi
        less = _integer(Op.SUB, -step, most - step, rest, _const(step))
        small = node(Op.LT, (less, _const(0)), _BOOL)
        rest = _integer(Op.CASE, 0, min(most, step - 1), small, rest, less)
    return rest
