"""Types of columns and expressions, and Arrow values as plain Python values to compare.

A value is an ``int`` or a ``Fraction`` (integers, decimals), a ``float``, a ``bool``, a ``str``,
``bytes``, or, for dates, timestamps and durations, an ``int`` of nanoseconds without bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

DAY = 86_400 * 10**9
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class Type:
    """The type of an expression; ``scale`` is the number of decimal digits of a decimal."""

    kind: str
    scale: int = 0

    @property
    def exact(self) -> bool:
        """Whether it is an integer or a decimal."""
        return self.kind in ("int", "dec")

    @property
    def number(self) -> bool:
        return self.kind in ("int", "dec", "f32", "f64")

    @property
    def instant(self) -> bool:
        return self.kind in ("date", "ts")


INT = Type("int")
F32 = Type("f32")
F64 = Type("f64")
BOOL = Type("bool")
DATE = Type("date")
TS = Type("ts")
DUR = Type("dur")
STR = Type("str")
BIN = Type("bin")


@dataclass(frozen=True)
class Column:
    """A column of a table: its Arrow type, and the type of an expression that names it."""

    name: str
    arrow: pa.DataType
    nullable: bool = True
    ends: tuple[int, int] | None = None
    """Smallest and largest raw value that the generator gives it, if the type allows more."""

    @property
    def type(self) -> Type:
        return type_of(self.arrow)

    def field(self) -> pa.Field:
        return pa.field(self.name, self.arrow, nullable=self.nullable)


def type_of(arrow: pa.DataType) -> Type:
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    if pa.types.is_integer(arrow):
        return INT
    if pa.types.is_decimal(arrow):
        return Type("dec", arrow.scale)
    for holds, kind in (
        (pa.types.is_float32, F32),
        (pa.types.is_float64, F64),
        (pa.types.is_boolean, BOOL),
        (pa.types.is_null, BOOL),  # a column of NULLs is of any type
        (pa.types.is_date, DATE),
        (pa.types.is_timestamp, TS),
        (pa.types.is_duration, DUR),
        (pa.types.is_string, STR),
        (pa.types.is_large_string, STR),
        (pa.types.is_binary, BIN),
        (pa.types.is_large_binary, BIN),
    ):
        if holds(arrow):
            return kind
    raise TypeError(f"no type for {arrow}")


def nanoseconds(arrow: pa.DataType) -> int:
    """Nanoseconds of one raw step of a date, timestamp or duration."""
    if pa.types.is_date32(arrow):
        return DAY
    if pa.types.is_date64(arrow):
        return UNITS["ms"]
    return UNITS[arrow.unit]


def value_of(raw: Any, arrow: pa.DataType) -> Any:
    """The plain value of what :func:`column_of` turns into an Arrow value."""
    if raw is None:
        return None
    kind = type_of(arrow).kind
    if kind == "dec":
        return Fraction(raw, 10**arrow.scale) if arrow.scale else raw
    if kind in ("date", "ts", "dur"):
        return raw * nanoseconds(arrow)
    return raw


def column_of(raw: list[Any], arrow: pa.DataType) -> pa.Array:
    """An Arrow array of raw values: decimals and times as integers of their last place or unit."""
    if pa.types.is_dictionary(arrow):
        plain = pa.array(raw, arrow.value_type).dictionary_encode()
        return plain.cast(arrow)
    if pa.types.is_decimal(arrow):
        from decimal import Context

        exact = Context(prec=100)
        values = [None if x is None else exact.scaleb(x, -arrow.scale) for x in raw]
        return pa.array(values, arrow)
    if pa.types.is_date64(arrow):
        return pa.array(raw, pa.int64()).view(arrow)
    if pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow):
        return pa.array(raw, pa.int64()).view(arrow)
    return pa.array(raw, arrow)


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """The plain values of an Arrow column."""
    arrow = column.type
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    kind = type_of(arrow).kind
    if kind in ("date", "ts", "dur"):
        width = pa.int32() if pa.types.is_date32(arrow) else pa.int64()
        step = nanoseconds(arrow)
        raw = column.combine_chunks().view(width) if len(column) else column
        return [None if x is None else x * step for x in raw.to_pylist()]
    if kind == "dec":
        return [None if x is None else Fraction(x) for x in column.to_pylist()]
    return column.to_pylist()


def comparable(value: Any) -> Any:
    """A key that is equal for values that are equal in a result: NaN is NaN, -0.0 is 0.0."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return str(value)
        return Fraction(value)
    return value
