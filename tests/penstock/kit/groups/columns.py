"""Random tables: columns of every type, with the values at which types break."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

#: Nanoseconds of a unit of Arrow's times.
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_FLOATS = (0.0, -0.0, 1.5, -2.25, 0.1, float("nan"), float("inf"), float("-inf"), 1e-310)
_TEXTS = ("", "a", "A", "ab", "a\0b", "ä", "日本", "z" * 40, "a ")
_DATE = datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class Column:
    """A column of random values.

    Parameters
    ----------
    kind : str
        int, float, dec, bool, date, ts, dur, text or bytes.
    type : pyarrow.DataType
    nulls : float
        Share of NULLs.
    extreme : bool
        Whether the first and the last value of the type occur, so that no sum fits.
    """

    name: str
    kind: str
    type: pa.DataType
    nulls: float = 0.0
    extreme: bool = False

    def values(self, rng: Random, rows: int) -> pa.Array:
        pool = self._pool(rng)
        chosen = [None if rng.random() < self.nulls else rng.choice(pool) for _ in range(rows)]
        if pa.types.is_dictionary(self.type):
            return pa.array(chosen, self.type.value_type).cast(self.type)
        if self.kind in ("ts", "dur", "date"):
            whole = pa.int32() if pa.types.is_date32(self.type) else pa.int64()
            return pa.array(chosen, whole).cast(self.type)
        return pa.array(chosen, self.type)

    def _pool(self, rng: Random) -> list[Any]:
        if self.kind == "int":
            bits, signed = self.type.bit_width, pa.types.is_signed_integer(self.type)
            low = -(2 ** (bits - 1)) if signed else 0
            pool = [v for v in (-3, -1, 0, 1, 2, 7) if v >= low]
            return [*pool, low, low + 2**bits - 1] if self.extreme else pool
        if self.kind == "float":
            pool = [*_FLOATS, *(round(rng.uniform(-1e6, 1e6), 3) for _ in range(4))]
            if self.type == pa.float32():
                return [pa.scalar(v, pa.float32()).as_py() for v in pool]
            return pool
        if self.kind == "dec":
            last = 10 ** min(self.type.precision, 38) - 1
            digits = [-150, -1, 0, 1, 100, 250, *((last, -last) if self.extreme else ())]
            return [Decimal(f"{v}e-{self.type.scale}") for v in digits if abs(v) <= last]
        if self.kind == "bool":
            return [True, False]
        if self.kind == "date":
            days = [-1, 0, 1, 19_000, *((-600_000, 900_000) if self.extreme else ())]
            return [d * 86_400_000 for d in days] if pa.types.is_date64(self.type) else days
        if self.kind in ("ts", "dur"):
            second = 10**9 // UNITS[self.type.unit]
            pool = [0, -1, 1, 59 * second, 3_600 * second, rng.randrange(10**5) * second]
            return [*pool, 2**63 - 1, -(2**63)] if self.extreme and self.kind == "dur" else pool
        if self.kind == "bytes":
            return [text.encode() + b"\xff" * rng.randrange(2) for text in _TEXTS]
        return list(_TEXTS)


def columns(rng: Random) -> list[Column]:
    """Random columns beside the event time."""
    result = []
    for i in range(rng.randint(2, 6)):
        kind = rng.choice(
            ["int", "int", "float", "dec", "bool", "date", "ts", "dur", "text", "bytes"]
        )
        result.append(
            Column(
                f"{kind[0]}{i}",
                kind,
                rng.choice(_types(kind)),
                rng.choice([0.0, 0.0, 0.1, 0.5, 1.0 if rng.random() < 0.2 else 0.3]),
                rng.random() < 0.3,
            )
        )
    return result


def _types(kind: str) -> list[pa.DataType]:
    units = list(UNITS)
    return {
        "int": [getattr(pa, f"{u}int{b}")() for u in ("", "u") for b in (8, 16, 32, 64)],
        "float": [pa.float32(), pa.float64()],
        "dec": [
            pa.decimal32(7, 2),
            pa.decimal64(15, 3),
            pa.decimal128(10, 2),
            pa.decimal128(38, 6),
            pa.decimal256(30, 1),
        ],
        "bool": [pa.bool_()],
        "date": [pa.date32(), pa.date64()],
        "ts": [pa.timestamp(u, z) for u in units for z in (None, "UTC", "Asia/Kolkata")],
        "dur": [pa.duration(u) for u in units],
        "text": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
        "bytes": [pa.binary(), pa.large_binary()],
    }[kind]


@dataclass(frozen=True)
class Clock:
    """The event time.

    Parameters
    ----------
    unit : str
        One of ``UNITS``, or "int" for a column of integers.
    zone : str or None
    base : int
        First time of the rows, in the unit.
    second : int
        Units of what the queries take for a second; 1 of integers.
    """

    unit: str
    zone: str | None
    base: int
    second: int

    @property
    def type(self) -> pa.DataType:
        return pa.int64() if self.unit == "int" else pa.timestamp(self.unit, self.zone)

    @property
    def integer(self) -> bool:
        return self.unit == "int"


def clock(rng: Random) -> Clock:
    unit = rng.choice(["s", "ms", "us", "us", "ns", "int"])
    second = 1 if unit == "int" else 10**9 // UNITS[unit]
    base = rng.choice([0, -50, -1_000_000, 1_700_000_000]) * second
    return Clock(unit, rng.choice([None, None, "UTC", "America/New_York"]), base, second)


@dataclass
class Table:
    """Rows of one source, feed by feed.

    Parameters
    ----------
    rows : pyarrow.Table
        With columns ``t``, the event time, and ``u``, which no two rows share.
    times : list of int or None
        Event times in their unit.
    bounds : list of int
        Row at which each feed begins, and the number of rows.
    disorder : list of int
        Of each feed, in units of time.
    """

    clock: Clock
    columns: list[Column]
    rows: pa.Table
    times: list[int | None]
    bounds: list[int]
    disorder: list[int] = field(default_factory=list)


def table(rng: Random, rows: int, feeds: int) -> Table:
    ticks, made = clock(rng), columns(rng)
    span = rng.choice([1, 30, 200, 5_000]) * ticks.second
    cuts = sorted(rng.randrange(rows + 1) for _ in range(feeds - 1))
    bounds = [0, *cuts, rows]
    times: list[int | None] = []
    disorder = []
    for first, last in itertools.pairwise(bounds):
        swing = rng.choice([0, 0, 5, 40]) * ticks.second
        here = sorted(rng.randrange(span) for _ in range(last - first))
        jittered = [ticks.base + t - (rng.randrange(swing + 1) if swing else 0) for t in here]
        times += [None if rng.random() < 0.05 else t for t in jittered]
        disorder.append(rng.choice([swing, swing, swing // 2, 0]))
    data = {"t": pa.array(times, pa.int64()).cast(ticks.type)}
    data["u"] = pa.array(rng.sample(range(-rows, rows), rows), pa.int64())
    for column in made:
        data[column.name] = column.values(rng, rows)
    return Table(ticks, made, pa.table(data), times, bounds, disorder)
