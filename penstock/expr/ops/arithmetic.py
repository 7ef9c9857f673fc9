"""Arithmetic on numbers, times and durations, on the bits of integers, and functions of floats."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from ...types import FLOAT64, TIMES, Kind, Type, integer
from ..functions import FUNCTIONS
from ..node import Expr, Op
from .align import EXACT, NUMBERS, align, choice_type, finer, to_float, to_unit
from .decimals import combined, decimal_quotient, exact_pair, whole_quotient
from .logic import eq
from .typed_nodes import ExprTypeError, const, typed

#: Kinds of numbers, which have a sign.
_SIGNED = NUMBERS | {Kind.DURATION, Kind.NULL}
_INTEGERS = {Kind.INT, Kind.NULL}


def _require(kinds: Set[Kind], need: str, *args: Expr) -> None:
    """Refuse an operand of another kind."""
    for arg in args:
        if arg.type.kind not in kinds:
            raise ExprTypeError(f"{need}, not {arg.type}")


def add(a: Expr, b: Expr) -> Expr:
    moved = _move_time(a, b, 1) or _move_time(b, a, 1)
    return moved or _arithmetic(Op.ADD, a, b)


def sub(a: Expr, b: Expr) -> Expr:
    if a.type.kind in TIMES and b.type.kind in TIMES:
        left, right = align((a, b), "the difference")
        return typed(Op.SUB, (left, right), Type(Kind.DURATION, unit=left.type.unit))
    return _move_time(a, b, -1) or _arithmetic(Op.SUB, a, b)


def _move_time(time: Expr, by: Expr, sign: int) -> Expr | None:
    """Add a duration to a time, or days to a date; None for operands that are neither."""
    if time.type.kind not in TIMES:
        return None
    if time.type.kind is Kind.DATE and by.type.kind is Kind.INT:
        unit, kind = "D", Kind.DATE
    elif by.type.kind is Kind.DURATION:
        unit = finer(time.type.unit, by.type.unit)
        is_date = time.type.kind is Kind.DATE and unit != "D"
        kind = Kind.TIMESTAMP if is_date else time.type.kind
        by = to_unit(by, unit)
    elif by.type.kind is Kind.INT:
        raise ExprTypeError(
            f"a {time.type} moves by an INTERVAL, not by an integer; write INTERVAL n SECONDS"
        )
    else:
        return None
    time = to_unit(time, unit, kind)
    return typed(Op.ADD if sign > 0 else Op.SUB, (time, by), Type(kind, unit=unit))


def _arithmetic(op: Op, a: Expr, b: Expr) -> Expr:
    name = {Op.ADD: "the sum", Op.SUB: "the difference", Op.MOD: "the remainder"}[op]
    if Kind.NULL in (kinds := {a.type.kind, b.type.kind}) and kinds & {*TIMES, Kind.DURATION}:
        return const(None)  # NULL for a time or for a duration: the other operand suits both
    _require(_SIGNED, f"{name} needs numbers", a, b)
    if pair := exact_pair(a, b):
        return combined(op, *pair)
    left, right = align((a, b), name)
    return typed(op, (left, right), left.type)


mod = partial(_arithmetic, Op.MOD)


def div(a: Expr, b: Expr) -> Expr:
    """The quotient of integers or decimals as an integer, rounded to 0."""
    _require(EXACT | {Kind.NULL}, "DIV needs integers or decimals", a, b)
    if pair := exact_pair(a, b):
        return whole_quotient(*pair)
    left, right = align((a, b), "DIV")
    return left if left.type.kind is Kind.NULL else typed(Op.DIV, (left, right), left.type)


def mul(a: Expr, b: Expr) -> Expr:
    if a.type.kind is Kind.INT and b.type.kind is Kind.DURATION:
        a, b = b, a
    if a.type.kind is Kind.DURATION and b.type.kind is Kind.INT:
        a = to_unit(a, "s") if a.type.unit == "D" else a  # no longer an interval of days alone
        return typed(Op.MUL, (a, b), a.type)
    _require(_SIGNED - {Kind.DURATION}, "a product needs numbers", a, b)
    if pair := exact_pair(a, b):
        return combined(Op.MUL, *pair)
    if not (a.type.kind in EXACT and b.type.kind in EXACT):
        left, right = align((a, b), "the product")
        if not left.type.is_integral:
            return typed(Op.MUL, (left, right), left.type)
        a, b = left, right
    return typed(Op.MUL, (a, b), Type(Kind.INT))


def neg(a: Expr) -> Expr:
    _require(_SIGNED, "unary minus needs a number", a)
    if a.is_const and a.attr is not None:
        return const(-a.attr, a.type)
    return typed(Op.NEG, (a,), a.type)


def absolute(a: Expr) -> Expr:
    _require(_SIGNED, "abs needs a number", a)
    return typed(Op.ABS, (a,), a.type)


def _extreme(op: Op, *args: Expr) -> Expr:
    """Make LEAST or GREATEST: they skip NULL, and are NULL only where every argument is."""
    if len(args) < 2:
        raise ExprTypeError(f"{op.value} needs at least two arguments")
    done = align(args, op.value)
    if done[0].type.kind in (Kind.STRING, Kind.BINARY, Kind.BOOL, Kind.NULL):
        raise ExprTypeError(f"{op.value} needs numbers or times, not {done[0].type}")
    return typed(op, done, choice_type(args, done))


least = partial(_extreme, Op.LEAST)
greatest = partial(_extreme, Op.GREATEST)


def _bits(op: Op, a: Expr, b: Expr) -> Expr:
    _require(_INTEGERS, f"{op.value} needs integers", a, b)
    left, right = align((a, b), op.value)
    if left.type.kind is Kind.NULL:
        return left
    return typed(op, (left, right), left.type)


bit_and = partial(_bits, Op.BIT_AND)
bit_or = partial(_bits, Op.BIT_OR)
bit_xor = partial(_bits, Op.BIT_XOR)


def bit_not(a: Expr) -> Expr:
    _require(_INTEGERS, "~ needs integers", a)
    if a.type.kind is Kind.NULL:
        return a
    return typed(Op.BIT_NOT, (a,), a.type)


def _shift(op: Op, a: Expr, n: Expr) -> Expr:
    _require(_INTEGERS, f"{op.value} needs integers", a, n)
    if Kind.NULL in (a.type.kind, n.type.kind):
        return const(None, integer(0, 0))
    if n.type.lo < 0 or n.type.hi > 63:
        raise ExprTypeError(
            f"the shift amount may be {n.type.lo} to {n.type.hi}; limit it to 0..63, "
            "for example with `& 63`"
        )
    return typed(op, (a, n), a.type)


shl = partial(_shift, Op.SHL)
shr = partial(_shift, Op.SHR)


def call(name: str, *args: Expr) -> Expr:
    """A function of :data:`~penstock.expr.functions.FUNCTIONS`; other numbers become float64."""
    _require(NUMBERS | {Kind.NULL}, f"{name} needs numbers", *args)
    function = FUNCTIONS[name]
    if any(arg.type.kind is Kind.NULL for arg in args):
        return const(None, function.type)
    return typed(Op.FUNCTION, [to_float(arg) for arg in args], function.type, name)


def divide(a: Expr, b: Expr) -> Expr:
    """The quotient, a decimal if an operand is one and none a float; NULL for a divisor of 0."""
    _require(NUMBERS | {Kind.NULL}, "/ needs numbers", a, b)
    pair = exact_pair(a, b)
    exact = decimal_quotient(*pair) if pair else None
    if exact is not None:
        return exact
    quotient = call("divide", a, b)
    if quotient.is_const or (b.is_const and b.attr):
        return quotient
    args = (eq(b, const(0)), const(None, FLOAT64), quotient)
    return typed(Op.CASE, args, FLOAT64, "DIVIDE_BY_ZERO")
