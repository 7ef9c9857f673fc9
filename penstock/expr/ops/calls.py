"""Calls of functions of floats, with a CASE around each function that is not total."""

from __future__ import annotations

from ...types import FLOAT64, Kind
from ..functions import FUNCTIONS
from ..node import Expr, Op
from .align import NUMBERS, to_float
from .decimals import decimal_quotient, exact_pair
from .infer import typed
from .leaves import ExprTypeError, const
from .logic import eq


def _check_numbers(name: str, args: tuple[Expr, ...]) -> None:
    for arg in args:
        if arg.type.kind not in NUMBERS | {Kind.NULL}:
            raise ExprTypeError(f"{name} needs numbers, not {arg.type}")


def call(name: str, *args: Expr) -> Expr:
    """A function of :data:`~penstock.expr.functions.FUNCTIONS`; other numbers become float64."""
    _check_numbers(name, args)
    function = FUNCTIONS[name]
    if any(arg.type.kind is Kind.NULL for arg in args):
        return const(None, function.type)
    return typed(Op.FUNCTION, [to_float(arg) for arg in args], function.type, name)


def divide(a: Expr, b: Expr) -> Expr:
    """The quotient, a decimal if an operand is one and none a float; NULL for a divisor of 0."""
    _check_numbers("/", (a, b))
    pair = exact_pair(a, b)
    exact = decimal_quotient(*pair) if pair else None
    if exact is not None:
        return exact
    quotient = call("divide", a, b)
    if quotient.is_const or (b.is_const and b.attr):
        return quotient
    args = (eq(b, const(0)), const(None, FLOAT64), quotient)
    return typed(Op.CASE, args, FLOAT64, "DIVIDE_BY_ZERO")
