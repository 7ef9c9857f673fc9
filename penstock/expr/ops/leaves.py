"""Constants, columns, keys, and the error of operands that do not fit."""

from __future__ import annotations

from ...errors import QueryError
from ...types import BINARY, BOOL, FLOAT64, NULL, STRING, Kind, Type
from ..node import Expr, Op, node


class ExprTypeError(QueryError):
    """Operands do not fit the operation; one sentence without the place in the text."""


#: Types of constants, by their Python classes; bool is an int, too.
_TYPES = {
    type(None): NULL,
    bool: BOOL,
    int: Type(Kind.INT),
    float: FLOAT64,
    str: STRING,
    bytes: BINARY,
}


def const(value: object, dtype: Type | None = None) -> Expr:
    """A constant; ``None`` is NULL. ``dtype`` is needed for decimals and times only."""
    if dtype is None:
        dtype = next((t for python, t in _TYPES.items() if isinstance(value, python)), None)
    if dtype is None:
        raise ExprTypeError(f"a constant cannot be a {type(value).__name__}")
    if dtype.is_integral and isinstance(value, int):
        dtype = dtype.within(value, value)
    return node(Op.CONST, (), dtype.as_nullable(value is None), value)


def decimal_const(unscaled: int, scale: int) -> Expr:
    return const(unscaled, Type(Kind.DECIMAL, scale=scale))


def duration_const(amount: int, unit: str) -> Expr:
    return const(amount, Type(Kind.DURATION, unit=unit))


def column(side: str, name: str, dtype: Type) -> Expr:
    return node(Op.COLUMN, (), dtype, (side, name))


def key(side: str, index: int, dtype: Type) -> Expr:
    return node(Op.KEY, (), dtype.as_nullable(False), (side, index))


TRUE = const(True)
FALSE = const(False)
