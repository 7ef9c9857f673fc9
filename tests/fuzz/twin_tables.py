"""Tables with a column of every type, with the ends of its range, for ``tests.fuzz.twins``."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

NEW_YORK = "America/New_York"
HOUR = 3600
#: Seconds near which times are: a day that has 23 hours in New York, one that has 25, and others.
DAYS = (1710054000, 1730610000, 0, -86400 * 3651, 1710000000, 951782400)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DEEP = [Decimal(sign + "9" * 28 + "." + "9" * 10) for sign in ("", "-")]

TIMES = {
    "timestamp": (pa.timestamp("us"), pa.timestamp("ms", NEW_YORK), pa.timestamp("ns", "UTC")),
    "integer": (pa.int64(), pa.uint32()),
    "date": (pa.date32(),),
}

#: Columns by the kind of their values.
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "int": {
        **{f"i{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
        **{f"u{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    },
    "float": {"f32": pa.float32(), "f64": pa.float64(), "g": pa.float64()},
    "decimal": {"n2": pa.decimal128(10, 2), "n10": pa.decimal128(38, 10)},
    "bool": {"b": pa.bool_()},
    "text": {"s": pa.string(), "l": pa.large_string()},
    "date": {"d": pa.date32()},
    "clock": {f"c_{unit}": pa.timestamp(unit) for unit in UNITS},
    "instant": {
        "z_s": pa.timestamp("s", "UTC"),
        "z_ms": pa.timestamp("ms", NEW_YORK),
        "z_us": pa.timestamp("us", "UTC"),
        "z_ns": pa.timestamp("ns", NEW_YORK),
    },
    "span": {f"e_{unit}": pa.duration(unit) for unit in UNITS},
}
TYPES = {name: kind for columns in COLUMNS.values() for name, kind in columns.items()}
_FLOATS = (0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 1e-3, 16777217.0, 1e30)
_DECIMALS = {
    "n2": [Decimal(v) for v in ("0", "1.25", "-1.25", "2.50", "99999999.99", "-99999999.99")],
    "n10": [Decimal(v) for v in ("0", "1.5", "-0.0000000001", "12.3456789012")] + DEEP,
}


def random_tables(rng: Random, kind: str) -> dict[str, pa.Table]:
    """Tables a, b and c, with times of a kind; a few rows in each hour of a day."""
    time = rng.choice(TIMES[kind])
    day = rng.choice(DAYS)
    is_wild = rng.random() < 0.5
    return {name: _table(rng, time, day, is_wild) for name in "abc"}


def _table(rng: Random, time: pa.DataType, day: int, is_wild: bool) -> pa.Table:
    count = rng.randint(3, 9)
    if pa.types.is_timestamp(time):
        first, step = day * UNITS[time.unit], HOUR * UNITS[time.unit]
    else:
        first, step = (0, HOUR) if pa.types.is_integer(time) else (day // 86_400, 1)
    parts = 1 if pa.types.is_date(time) else 3
    times = [first + rng.randrange(6) * step + rng.randrange(parts) for _ in range(count)]
    columns = {"id": pa.array(range(1, count + 1), pa.int64()), "t": pa.array(times, time)}
    for name, kind in TYPES.items():
        values = [_value(rng, name, kind, day, is_wild) for _ in range(count)]
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


def _value(rng: Random, name: str, kind: pa.DataType, day: int, is_wild: bool) -> Any:
    if rng.random() < 0.15:
        return None
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        ends = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        low = 0 if name[0] == "u" else -5
        return rng.choice(ends) if is_wild and rng.random() < 0.3 else rng.randint(low, 9)
    if name == "g":
        return rng.randint(-4000, 4000) / 4
    if pa.types.is_floating(kind):
        return rng.choice(_FLOATS)
    if pa.types.is_decimal(kind):
        return rng.choice(_DECIMALS[name][: None if is_wild or name == "n2" else 4])
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if kind in COLUMNS["text"].values():
        return rng.choice(["", "a", "B", "ab", "é", "10", "2024-03-10"])
    if pa.types.is_date32(kind):
        last = [date(1, 1, 1), date(9999, 12, 31)] if is_wild else []
        return rng.choice([date(2024, 3, 10), date(1969, 12, 31), date(2024, 2, 29), *last])
    scale = UNITS[kind.unit]
    part = rng.randrange(scale)
    if pa.types.is_duration(kind):
        return rng.choice([0, 1, -1, HOUR * scale, 90061 * scale + part, -90061 * scale - part])
    if is_wild and rng.random() < 0.15:
        far = [2**63 - 1, -(2**63) + 1] if kind.unit == "ns" else [253402300799 * scale]
        return rng.choice(far)
    return (day + rng.randrange(-3, 30) * HOUR // 2) * scale + part


def literal(table: pa.Table) -> str:
    """Python that makes a table."""
    columns = []
    for name in table.column_names:
        column = table[name]
        kind = column.type
        if not (kind in COLUMNS["text"].values() or pa.types.is_decimal(kind)) and not (
            pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            width = pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
            column = (column.cast(pa.int32()) if pa.types.is_date32(kind) else column).cast(width)
        columns.append(f'"{name}": pa.array({column.to_pylist()}, {_type(kind)})')
    return "pa.table({" + ", ".join(columns) + "})"


def _type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"pa.decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return f"pa.timestamp({kind.unit!r}, {kind.tz!r})"
    if pa.types.is_duration(kind):
        return f"pa.duration({kind.unit!r})"
    names = {"bool": "bool_", "double": "float64", "float": "float32", "date32[day]": "date32"}
    return f"pa.{names.get(str(kind), str(kind))}()"
