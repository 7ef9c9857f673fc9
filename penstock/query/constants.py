"""Constants of a query: numbers, times, intervals, parameters, and the types that CAST names."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr import build
from penstock.expr.node import Expr
from penstock.query.dialect import place, snippet
from penstock.types import (
    BINARY,
    BOOL,
    FLOAT32,
    FLOAT64,
    STRING,
    UNIT_NS,
    Kind,
    Type,
    decimal,
    int_of,
)

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INTERVAL_US = {
    "WEEK": 7 * 86_400_000_000,
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}
_CAST_TYPES: dict[exp.DType, Type] = {
    exp.DataType.Type.BOOLEAN: BOOL,
    exp.DataType.Type.TINYINT: int_of(8),
    exp.DataType.Type.SMALLINT: int_of(16),
    exp.DataType.Type.INT: int_of(32),
    exp.DataType.Type.BIGINT: int_of(64),
    exp.DataType.Type.FLOAT: FLOAT32,
    exp.DataType.Type.DOUBLE: FLOAT64,
    exp.DataType.Type.TEXT: STRING,
    exp.DataType.Type.VARCHAR: STRING,
    exp.DataType.Type.BINARY: BINARY,
    exp.DataType.Type.DATE: Type(Kind.DATE, -(1 << 31), (1 << 31) - 1, unit="D"),
    exp.DataType.Type.TIMESTAMP: Type(Kind.TIMESTAMP, -(1 << 63), (1 << 63) - 1, unit="us"),
    exp.DataType.Type.TIMESTAMPTZ: Type(Kind.TIMESTAMP, -(1 << 63), (1 << 63) - 1, unit="us"),
    exp.DataType.Type.TIMESTAMPNTZ: Type(Kind.TIMESTAMP, -(1 << 63), (1 << 63) - 1, unit="us"),
}


def cast_type(tree: exp.Cast) -> Type:
    """The type a CAST names."""
    to = tree.to
    if to.this in (exp.DataType.Type.DECIMAL,):
        digits = [int(p.this.this) for p in to.expressions] or [10, 0]
        return decimal(digits[0], digits[1] if len(digits) > 1 else 0)
    found = _CAST_TYPES.get(to.this)
    if found is None:
        raise QueryError(f"CAST to {snippet(to)} is not supported ({place(tree)})")
    return found


def time_literal(text: str, dtype: Type, tree: exp.Expr) -> Expr:
    """Constant for text that is cast to a date or time."""
    if not dtype.unit:
        raise QueryError(f"CAST of text to {dtype} is not supported ({place(tree)})")
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise QueryError(f"{text!r} is not an ISO date or time ({place(tree)})") from None
    return _moment(moment, dtype)


def _moment(moment: datetime.datetime, dtype: Type) -> Expr:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    micros = (moment - _EPOCH) // datetime.timedelta(microseconds=1)
    return build.const(micros * 1000 // UNIT_NS[dtype.unit], dtype)


def _duration(micros: int) -> Expr:
    """A duration in the coarsest unit that holds it exactly, so that it fits any time column."""
    for unit in ("s", "ms"):
        step = UNIT_NS[unit] // 1000
        if micros % step == 0:
            return build.duration_const(micros // step, unit)
    return build.duration_const(micros, "us")


def number(text: str) -> Expr:
    """An integer, a decimal, or with an exponent a float."""
    if text.isdigit():
        return build.const(int(text))
    if "e" in text.lower():
        return build.const(float(text))
    return _decimal(Decimal(text))


def _decimal(value: Decimal) -> Expr:
    scale = max(-int(value.as_tuple().exponent), 0)
    return build.decimal_const(int(value.scaleb(scale)), scale)


def param(name: str, value: Any) -> Expr:
    """Constant for a named parameter.

    Raises
    ------
    QueryError
        The value has no SQL meaning.
    """
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime.timedelta):
        return _duration(value // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.datetime):
        return _moment(value, _CAST_TYPES[exp.DataType.Type.TIMESTAMP])
    if isinstance(value, float) and math.isfinite(value):
        # As if written in the query, where 0.5 is a decimal and 1e-3 a float.
        return number(repr(value))
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return build.const(value)
    raise QueryError(
        f"parameter {name} is a {type(value).__name__}; give a number, text, time or None"
    )


def interval(tree: exp.Interval) -> Expr:
    """Constant for an INTERVAL.

    Raises
    ------
    QueryError
        It is no number of a known unit, or finer than a microsecond.
    """
    unit = tree.args.get("unit")
    name = "" if unit is None else unit.name.upper()
    amount = tree.this
    negative = isinstance(amount, exp.Neg)
    text = (amount.this if negative else amount).name if amount is not None else ""
    step = _INTERVAL_US.get(name.removesuffix("S"))
    if step is None or isinstance(unit, exp.IntervalSpan):
        raise QueryError(
            f"INTERVAL needs a number and one of {', '.join(_INTERVAL_US)} ({place(tree)})"
        )
    try:
        exact = Decimal(text) * step
    except InvalidOperation:
        raise QueryError(f"INTERVAL {text!r} is not a number ({place(tree)})") from None
    if exact != int(exact):
        raise QueryError(f"INTERVAL {text} {name} is finer than 1 us ({place(tree)})")
    return _duration(-int(exact) if negative else int(exact))
