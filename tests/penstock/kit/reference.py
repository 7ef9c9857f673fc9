"""Plain evaluation of one expression on one row or pair: the reference for every rewrite.

Slow and obvious on purpose. Values are Python integers (in units of the type's scale), floats,
booleans, str, bytes, and None for NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.errors import DataError
from penstock.expr.node import Expr, Op, walk
from penstock.expr.values import cast_value, order_key, zero_of
from penstock.types import Kind, Type
from penstock.zones import zone_of

Row = Mapping[tuple[str, Any], Any]


def evaluate(expr: Expr, row: Row) -> Any:
    """Value of ``expr`` where ``row[side, name]`` are the columns, under three-valued logic.

    A column whose type is not nullable but whose value is NULL counts as zero, which is what
    devices see beside the guard that switches such a row off.
    """
    values: dict[Expr, Any] = {}
    for current in walk(expr):
        try:
            values[current] = _apply(current, [values[a] for a in current.args], row)
        except DataError as error:
            values[current] = error
    return _taken(values[expr])


def _taken(value: Any) -> Any:
    """A value that is used, which must not be an error."""
    if isinstance(value, DataError):
        raise value
    return value


def _apply(expr: Expr, args: list[Any], row: Row) -> Any:
    op = expr.op
    if op is Op.CONST:
        return expr.attr
    if op in (Op.COLUMN, Op.KEY):
        value = row[expr.attr]
        return zero_of(expr.type) if value is None and not expr.type.nullable else value
    if op is Op.CASE:
        for condition, value in zip(args[:-1:2], args[1::2], strict=False):
            if _taken(condition) is True:
                return _taken(value)
        return _taken(args[-1])
    args = [_taken(one) for one in args]
    if op is Op.AND:
        return False if False in args else None if None in args else True
    if op is Op.OR:
        return True if True in args else None if None in args else False
    if op is Op.IS_NULL:
        return args[0] is None
    if op in (Op.LEAST, Op.GREATEST):
        known = [a for a in args if a is not None]
        if not known:
            return None
        pick = min if op is Op.LEAST else max
        return pick(known, key=order_key)
    if None in args:
        return None
    if op is Op.RAW:
        return args[0]
    if op is Op.CAST:
        return cast_value(args[0], expr.args[0].type, expr.type)
    if op in (Op.LOCAL, Op.INSTANT):
        return _zoned(expr, args)
    if op is Op.NOT:
        return not args[0]
    if op is Op.IN:
        return args[0] in expr.attr
    if op is Op.PREFIX:
        return args[0].startswith(args[1])
    if op in (Op.LT, Op.LE, Op.EQ):
        a, b = order_key(args[0]), order_key(args[1])
        return a < b if op is Op.LT else a <= b if op is Op.LE else a == b
    if expr.type.is_float:
        return _float(op, args, expr.type)
    return _integer(op, args)


def _zoned(expr: Expr, args: list[int]) -> int:
    name, special = expr.attr
    zone, unit = zone_of(name), expr.type.unit
    value, *near = (np.array([arg], dtype=object) for arg in args)
    if expr.op is Op.LOCAL:
        (found,) = zone.local(value, unit, floor=special)
    else:
        (found,) = zone.instant(value, unit, near=near[0] if near else None, start=special)
    return int(found)


def _integer(op: Op, args: list[int]) -> int | None:
    a, b = args[0], args[-1]
    if op is Op.ADD:
        return a + b
    if op is Op.SUB:
        return a - b
    if op is Op.MUL:
        return a * b
    if op is Op.NEG:
        return -a
    if op is Op.ABS:
        return abs(a)
    if op is Op.MOD:
        if b == 0:
            return None
        return abs(a) % abs(b) * (-1 if a < 0 else 1)
    if op is Op.DIV:
        return None if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
    if op is Op.BIT_AND:
        return a & b
    if op is Op.BIT_OR:
        return a | b
    if op is Op.BIT_XOR:
        return a ^ b
    if op is Op.BIT_NOT:
        return ~a
    if op is Op.SHL:
        return a << b
    return a >> b


def _float(op: Op, args: list[float], dtype: Type) -> float | None:
    real = np.float32 if dtype.kind is Kind.FLOAT32 else np.float64
    a, b = real(args[0]), real(args[-1])
    with np.errstate(all="ignore"):
        if op is Op.ADD:
            return float(a + b)
        if op is Op.SUB:
            return float(a - b)
        if op is Op.MUL:
            return float(a * b)
        if op is Op.NEG:
            return float(-a)
        if op is Op.ABS:
            return float(abs(a))
        return None if b == 0 else float(np.fmod(a, b))
