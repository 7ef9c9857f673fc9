"""Constants, columns and keys, and nodes whose operands are aligned already: their exact types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ...errors import QueryError
from ...types import BINARY, BOOL, FLOAT64, NULL, STRING, UNIT_NS, Kind, Type
from ...zones import zone_of
from .. import interval
from ..interval import BOUNDS, Interval
from ..node import DIVISIONS, Expr, Op, node

#: Most bits of an exact integer: beyond it an expression is a mistake, not a query.
MAX_BITS = 512

_EXTREMES = frozenset({Op.LEAST, Op.GREATEST})


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


def typed(op: Op, args: Sequence[Expr], like: Type, attr: Any = None) -> Expr:
    """Make a node; its bounds and nullability follow from its aligned operands.

    Parameters
    ----------
    op : Op
        Any but those of leaves.
    args : sequence of Expr
    like : Type
        Kind, scale and unit of the value; of a CAST also the bounds that it checks.
    attr : optional
        Of the node.

    Raises
    ------
    ExprTypeError
        The value may need too many bits.
    """
    args = tuple(args)
    dtype = like.as_nullable(is_nullable(op, args))
    if dtype.is_integral:
        lo, hi = _bounds(op, args, dtype, attr)
        if max(abs(lo), abs(hi)).bit_length() > MAX_BITS:
            raise ExprTypeError(f"the value may need more than {MAX_BITS} bits")
        dtype = dtype.within(lo, hi)
    return node(op, args, dtype, attr)


def times(expr: Expr, factor: int, dtype: Type) -> Expr:
    """Multiply; the result has the kind, scale and unit of ``dtype``."""
    if expr.is_const:
        value = None if expr.attr is None else expr.attr * factor
        return const(value, dtype)
    if factor == 1:
        return typed(Op.CAST, (expr,), dtype.within(expr.type.lo, expr.type.hi))
    return typed(Op.MUL, (expr, const(factor)), dtype)


def keeps_raw(source: Type, target: Type) -> bool:
    """Whether a CAST leaves every stored integer as it is and can never overflow."""
    return (
        source.is_integral
        and target.is_integral
        and raw_factor(source, target) == 1
        and target.lo <= source.lo
        and source.hi <= target.hi
    )


def raw_factor(source: Type, target: Type) -> int | None:
    """The factor of an integral CAST on the stored integer; None if it may round."""
    if source.unit or target.unit:
        if not (source.unit and target.unit):
            return None
        factor, remainder = divmod(UNIT_NS[source.unit], UNIT_NS[target.unit])
        return None if remainder else factor
    return 10 ** (target.scale - source.scale) if target.scale >= source.scale else None


def is_nullable(op: Op, args: Sequence[Expr]) -> bool:
    """Whether the value may be NULL, by the types of the operands."""
    if op is Op.IS_NULL:
        return False
    if op is Op.CHECKED:
        return args[0].type.nullable
    if op in _EXTREMES:  # they skip NULL
        return all(a.type.nullable for a in args)
    if op is Op.CASE:
        return any(a.type.nullable for a in (*args[1::2], args[-1]))
    if any(a.type.nullable for a in args):
        return True
    if op not in DIVISIONS:
        return False
    divisor = args[1]
    if divisor.type.is_float:
        return not (divisor.is_const and divisor.attr)
    return divisor.type.lo <= 0 <= divisor.type.hi


def _bounds(op: Op, args: Sequence[Expr], like: Type, attr: Any) -> Interval:
    bounds = [(a.type.lo, a.type.hi) for a in args]
    if op is Op.MUL and args[0] is args[1]:
        return interval.square(bounds[0])
    if op in _EXTREMES:
        extreme = reduce(BOUNDS[op], bounds)
        # A NULL is skipped, which leaves any other operand as the value.
        skips = any(a.type.nullable for a in args)
        return interval.hull(extreme, *bounds) if skips else extreme
    if op is Op.CASE:
        values = (*args[1::2], args[-1])
        known = [(v.type.lo, v.type.hi) for v in values if not v.is_null_const]
        return interval.hull(*known) if known else (0, 0)
    if op in (Op.RAW, Op.CHECKED) or (op is Op.CAST and keeps_raw(args[0].type, like)):
        return bounds[0]
    if op in (Op.CAST, Op.FUNCTION):
        return like.lo, like.hi
    if op in (Op.LOCAL, Op.INSTANT):
        span = zone_of(attr[0]).span(like.unit)
        return (interval.add if op is Op.LOCAL else interval.sub)(bounds[0], span)
    return BOUNDS[op](*bounds)
