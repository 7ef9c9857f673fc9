"""Random tables: their schemas, their event times, and rows in which things are often equal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from tests.fuzz.types import UNITS, Column, column_of, nanoseconds, type_of

INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.int64(), pa.uint8(), pa.uint16()]
INTS += [pa.uint32(), pa.uint64()]
TEXTS = ["", "a", "ab", "abc", "abd", "b", "ba", "it's", "é", "%", "_a", "A", "a\x00", "日本"]

Raw = list[list[Any]]
"""Rows of raw values: see :func:`tests.fuzz.types.column_of`."""


@dataclass(frozen=True)
class Times:
    """The event times of a query.

    Parameters
    ----------
    columns
        The time column of each side.
    step
        What one step of a small time difference is: raw units of an integer time, nanoseconds else.
    numeric
        Whether both are integers without a unit.
    declared
        Units that ``time=`` declares for integers, by side.
    """

    columns: tuple[Column, Column]
    step: int
    numeric: bool
    declared: tuple[str | None, str | None] = (None, None)

    def unit(self, side: int) -> int:
        """Nanoseconds of one raw unit, 1 for integers without a unit."""
        if self.numeric:
            return 1
        declared = self.declared[side]
        return UNITS[declared] if declared else nanoseconds(self.columns[side].arrow)


def random_times(rng: Random) -> Times:
    def column(arrow: pa.DataType) -> Column:
        return Column("t", arrow, rng.random() < 0.6)

    if rng.random() < 0.5:
        kinds = [pa.int64()] * 6 + INTS
        first = rng.choice(kinds)
        second = first if rng.random() < 0.7 else rng.choice(kinds)
        return Times((column(first), column(second)), 1, True)
    kinds = [pa.timestamp(u, z) for u in UNITS for z in (None, None, "UTC")] + [pa.date32()]
    first = rng.choice(kinds)
    second = first if rng.random() < 0.6 else rng.choice(kinds)
    declared: list[str | None] = [None, None]
    sides = [first, second]
    if rng.random() < 0.12:
        sides = [pa.int64(), rng.choice([pa.int64(), pa.int32()])]
        declared = [rng.choice(list(UNITS))] * 2
    columns = (column(sides[0]), column(sides[1]))
    units = [
        UNITS[unit] if unit else nanoseconds(arrow)
        for arrow, unit in zip(sides, declared, strict=True)
    ]
    # The coarser unit, so that times of both sides meet; at times a finer grid in between.
    step = max(units) if rng.random() < 0.8 else max(UNITS["s"], max(units))
    return Times(columns, step, False, (declared[0], declared[1]))


def random_type(rng: Random) -> pa.DataType:
    roll = rng.random()
    if roll < 0.42:
        return rng.choice(INTS)
    if roll < 0.58:
        return random_decimal(rng)
    if roll < 0.72:
        return rng.choice([pa.float32(), pa.float64(), pa.float64()])
    if roll < 0.80:
        return rng.choice([pa.date32(), pa.timestamp(rng.choice(list(UNITS)))])
    if roll < 0.86:
        return pa.duration(rng.choice(list(UNITS)))
    if roll < 0.91:
        return pa.bool_()
    return rng.choice(
        [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())]
    )


def random_decimal(rng: Random) -> pa.DataType:
    make, most = rng.choice(
        [(pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 50)]
    )
    digits = rng.randint(1, most) if rng.random() < 0.4 else rng.randint(3, min(most, 12))
    return make(digits, rng.randint(0, min(digits, 6)))


def random_columns(rng: Random, times: Times, side: int) -> list[Column]:
    """The time column, an ``id`` without NULL, and a few others."""
    others = [
        Column(f"{'xyzuvw'[i]}", random_type(rng), rng.random() < 0.75)
        for i in range(rng.randint(1, 4))
    ]
    return [times.columns[side], Column("id", pa.int64(), rng.random() < 0.3), *others]


def limits(arrow: pa.DataType) -> tuple[int, int]:
    """The raw bounds of a type whose raw values are integers."""
    if pa.types.is_decimal(arrow):
        most = 10**arrow.precision - 1
        return -most, most
    bits = 32 if pa.types.is_date32(arrow) else 64
    if pa.types.is_integer(arrow):
        bits = arrow.bit_width
    if pa.types.is_unsigned_integer(arrow):
        return 0, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1


def random_raw(rng: Random, arrow: pa.DataType, wild: float) -> Any:
    """A raw value, mostly a small one; ``wild`` is the chance of one at a type's ends."""
    kind = type_of(arrow).kind
    odd = rng.random() < wild
    if kind == "bool":
        return rng.random() < 0.5
    if kind in ("str", "bin"):
        value = rng.choice(TEXTS)
        return value.encode() if kind == "bin" else value
    if kind in ("f32", "f64"):
        if not odd:
            return rng.randint(-12, 12) / 4
        ends = [math.nan, math.inf, -math.inf, -0.0, 0.0, math.nan, 1e30, 16777216.0, 0.1]
        value = rng.choice(ends)
        if kind == "f64":
            return rng.choice([value, 2.0**53, 1e300, 5e-324])
        import struct

        return struct.unpack("f", struct.pack("f", value))[0]
    low, high = limits(arrow)
    if kind in ("date", "ts"):
        if pa.types.is_date64(arrow):
            return rng.randint(-3, 20) * 86_400_000
        unit = nanoseconds(arrow)
        if odd:
            near = rng.choice([low, high, 0, 1_600_000_000 * 10**9 // unit])
            return max(low, min(high, near + rng.randint(-3, 3)))
        return rng.randint(-3, 20) * max(1, UNITS["s"] // unit)
    if odd:
        base = rng.choice([low, high, low // 2, high // 2, 1 << 53, 0])
        return max(low, min(high, base + rng.randint(-2, 2)))
    small = rng.randint(-4, 9)
    if kind == "dec" and rng.random() < 0.5:
        small = small * 10**arrow.scale + rng.choice([0, 0, 1, 25, 50])
    if kind == "dur" and rng.random() < 0.6:
        small *= max(1, UNITS["s"] // nanoseconds(arrow))
    return max(low, min(high, small))


@dataclass(frozen=True)
class Shape:
    """How the rows of one data set are drawn."""

    rows: tuple[int, int]
    nulls: float
    wild: float
    time_nulls: float
    time_mode: str
    span: int


def random_shape(rng: Random) -> Shape:
    def rows() -> int:
        roll = rng.random()
        if roll < 0.08:
            return 0
        if roll < 0.16:
            return 1
        if roll < 0.985:
            return rng.randint(2, 8)
        return rng.randint(20, 60)

    return Shape(
        rows=(rows(), rows()),
        nulls=rng.choice([0, 0, 0, 0.2, 0.4]),
        wild=rng.choice([0, 0, 0.1, 0.4]),
        time_nulls=rng.choice([0, 0, 0, 0.2, 1.0 if rng.random() < 0.1 else 0.3]),
        time_mode=rng.choice(["small"] * 6 + ["high", "low", "ends", "equal", "negative"]),
        span=rng.choice([1, 3, 10, 10, 30]),
    )


def random_time(rng: Random, times: Times, side: int, shape: Shape) -> int:
    """A raw event time of a side."""
    column = times.columns[side]
    low, high = limits(column.arrow)
    unit = times.unit(side)
    near = rng.randint(0, shape.span)
    mode = shape.time_mode
    if mode == "ends":
        mode = rng.choice(["high", "low", "small"])
    if mode == "equal":
        near, mode = 1, "small"
    if mode == "high":
        return high - min(near, high)
    if mode == "low":
        return low + min(near, high)
    if mode == "negative":
        near = -near
    raw = near * max(1, times.step // unit)
    if unit < times.step and rng.random() < 0.2:
        raw += rng.randint(-1, 1)
    return max(low, min(high, raw))


def random_rows(
    rng: Random, columns: list[Column], times: Times, side: int, shape: Shape
) -> list[tuple[Any, ...]]:
    """Rows of raw values of one side."""
    whole_nulls = {c.name for c in columns if c.nullable and rng.random() < 0.04}
    timed = any(c.name == "t" for c in columns)
    rows = []
    for i in range(shape.rows[side]):
        row: list[Any] = []
        for c in columns:
            if c.name == "t" and timed:
                null = c.nullable and rng.random() < shape.time_nulls
                row.append(None if null else random_time(rng, times, side, shape))
            elif c.name == "id":
                row.append(i)
            elif c.nullable and (c.name in whole_nulls or rng.random() < shape.nulls):
                row.append(None)
            elif c.ends is not None:
                row.append(rng.randint(*c.ends))
            else:
                row.append(random_raw(rng, c.arrow, shape.wild))
        rows.append(tuple(row))
    return rows


def table_of(columns: list[Column], rows: list[tuple[Any, ...]]) -> pa.Table:
    """An Arrow table of raw rows."""
    raw = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [column_of(list(x), c.arrow) for c, x in zip(columns, raw, strict=True)]
    return pa.table(arrays, schema=pa.schema([c.field() for c in columns]))
