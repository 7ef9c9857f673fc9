"""Random queries over one table, and their groups by DuckDB.

Written from docs/joins/sql.md alone. The oracle gets the same text, but for three words of the
dialect: windows and truncations of times are arithmetic on integers there, and ``min_by`` an
ordered first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

#: Nanoseconds of each unit of time; D is that of dates.
NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "D": 86_400 * 10**9}
#: Relative error of a sum of floats, over the sum of their magnitudes.
TOLERANCE = 1e-12

Rng = np.random.Generator


def _nullable(rng: Rng, values: Sequence[Any], dtype: pa.DataType, share: float = 0.15) -> pa.Array:
    keep = rng.random(len(values)) >= share
    return pa.array([v if k else None for v, k in zip(values, keep, strict=True)], dtype)


def _floats(rng: Rng, rows: int, *, finite: bool) -> list[float]:
    some = [0.0, -0.0, 1.5, -2.25, 1e9, 0.1, 7.0]
    some += [math.nan] if finite else [math.nan, math.inf, -math.inf]
    return [some[k] for k in rng.integers(0, len(some), rows)]


#: Columns that may be keys, and how their values are made.
_MAKERS: dict[str, Callable[[Rng, int], pa.Array]] = {
    "i8": lambda r, n: _nullable(r, r.integers(-3, 4, n).tolist(), pa.int8()),
    "i32": lambda r, n: _nullable(r, r.integers(-50, 50, n).tolist(), pa.int32()),
    "i64": lambda r, n: _nullable(r, (r.integers(-2, 3, n) * 10**15).tolist(), pa.int64()),
    "u64": lambda r, n: _nullable(r, [2**63 + int(v) for v in r.integers(0, 3, n)], pa.uint64()),
    "f32": lambda r, n: _nullable(r, _floats(r, n, finite=False), pa.float32()),
    "f64": lambda r, n: _nullable(r, _floats(r, n, finite=False), pa.float64()),
    "g64": lambda r, n: _nullable(r, _floats(r, n, finite=True), pa.float64()),
    "d": lambda r, n: _nullable(
        r, [Decimal(int(v)) / 100 for v in r.integers(-300, 300, n)], pa.decimal128(9, 2)
    ),
    "wide": lambda r, n: _nullable(
        r, [Decimal(int(v)) * 10**20 for v in r.integers(-2, 3, n)], pa.decimal128(30, 4)
    ),
    "day": lambda r, n: _nullable(
        r, [date(2024, 1, 1) + timedelta(int(v)) for v in r.integers(0, 4, n)], pa.date32()
    ),
    "b": lambda r, n: _nullable(r, (r.random(n) < 0.5).tolist(), pa.bool_()),
    "s": lambda r, n: _nullable(
        r, [["", "a", "ä", "ab", "b" * 40][k] for k in r.integers(0, 5, n)], pa.string()
    ),
    "bin": lambda r, n: _nullable(
        r, [[b"", b"\0", b"\xff", b"ab"][k] for k in r.integers(0, 4, n)], pa.binary()
    ),
    "code": lambda r, n: _nullable(
        r, [["x", "y", "z"][k] for k in r.integers(0, 3, n)], pa.string()
    ).dictionary_encode(),
}

_KEYS = (*_MAKERS, "i8 + 1", "i32 % 3", "abs(i8)", "s = 'a'", "CASE WHEN b THEN 1 ELSE i8 END")
_CONDITIONS = (
    "i8 > 0", "s IN ('a', 'ab')", "NOT b", "f64 < 2", "d BETWEEN -1 AND 1", "s IS NOT NULL",
    "i32 % 2 = 0 OR b", "day >= DATE '2024-01-03'", "i8 + i32 > 3 AND g64 <= 7",
)  # fmt: skip
_NUMBERS = ("i8", "i32", "d", "g64", "i8 * i32", "i32 - 7", "wide")
_ORDERED = (*_NUMBERS, "day", "f64", "u64")
_PICKED = ("i64", "s", "d", "day", "i8 + i32", "bin", "f64")
_BY = ("i8", "i32 % 3", "0 * n", "d", "day")
_HAVING = ("count(*) > 1", "min(i32) < 0", "sum(i8) > -2 OR count(*) = 1", "max(d) IS NOT NULL")


@dataclass
class Case:
    """A query, its rows, and what DuckDB is asked.

    Parameters
    ----------
    text : str
    table : pyarrow.Table
        ``t`` is its event time, ``n`` the number of each row.
    keys, floats : list of str
        Output columns that are keys, and those that are sums of floats or means.
    """

    text: str
    table: pa.Table
    oracle: str
    keys: list[str]
    floats: list[str]
    time: dict[str, str] = field(default_factory=dict)
    unit: str = ""

    def expected(self, rows: pa.Table | None = None) -> list[tuple]:
        """The groups of the rows by DuckDB."""
        table = self.table if rows is None else rows
        plain = table.set_column(table.schema.get_field_index("t"), "t", as_integers(table["t"]))
        with duckdb.connect() as connection:
            connection.register("g", plain)
            return _rows(connection.sql(self.oracle).to_arrow_table(), len(self.keys))

    def check(self, found: pa.Table, rows: pa.Table | None = None) -> None:
        """Hold groups to the oracle's."""
        wanted = self.expected(rows)
        size = len(found.schema)
        magnitudes = {name: size + k for k, name in enumerate(self.floats)}
        got = _rows(found, len(self.keys))
        assert len(got) == len(wanted), self.text
        for own, other in zip(got, wanted, strict=True):
            for k, name in enumerate(found.schema.names):
                if name in magnitudes and None not in (own[k], other[k]):
                    self._close(own[k], other[k], other[magnitudes[name]])
                else:
                    assert own[k] == other[k], (self.text, name, own, other)

    def _close(self, own: Any, other: Any, magnitude: Any) -> None:
        if "NaN" in (own, other):
            assert own == other, self.text
            return
        allowed = TOLERANCE * abs(float(magnitude)) if magnitude != "NaN" else 0.0
        if isinstance(own, Decimal):  # rounded to its digits, where DuckDB's is a double
            allowed += 0.51 * 10.0 ** own.as_tuple().exponent
        assert abs(float(own) - float(other)) <= allowed + 1e-300, (self.text, own, other)


def as_integers(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Event times as integers of their unit."""
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    return times.cast(pa.int64())


def _rows(table: pa.Table, keys: int) -> list[tuple]:
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
        columns.append([_plain(v) for v in column.to_pylist()])
    return sorted(zip(*columns, strict=True), key=lambda row: repr(row[:keys]))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else _whole(value + 0.0)
    if isinstance(value, Decimal):
        return _whole(value)
    return int(value) if isinstance(value, bool) else value


def _whole(value: Any) -> Any:
    """Equal numbers as one, whatever their type."""
    is_whole = not isinstance(value, float) or math.isfinite(value)
    return int(value) if is_whole and value == int(value) else value


class Maker:
    """Makes one random case.

    Parameters
    ----------
    timed : bool
        Whether the first key follows the event time, as a stream needs it.
    """

    def __init__(self, rng: Rng, *, timed: bool = False) -> None:
        self.rng = rng
        self.timed = timed

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[self.rng.integers(0, len(options))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def table(self, rows: int) -> tuple[pa.Table, str, dict[str, str]]:
        """Rows in disorder, with the unit of their time, and how it is declared."""
        rng, unit = self.rng, self.one_of(list(NS))
        base = self.one_of([0, -3_000, 1_700_000_000 * NS["s"] // NS[unit]])
        times = base + np.arange(rows) * 3 + rng.integers(-20, 21, rows)
        if self.chance(0.4):
            times -= times % self.one_of([25, 300])  # so that rows have equal times
        missing = rng.random(rows) < 0.05
        declared = {}
        if unit == "D":
            time = pa.array(times.astype(np.int32), pa.int32(), mask=missing).cast(pa.date32())
            declared = {"g": "t"} if self.chance(0.5) else {}
        elif self.chance(0.5):
            zone = self.one_of([None, "UTC", "America/New_York"])
            time = pa.array(times, pa.timestamp(unit, zone), mask=missing)
        else:
            time = pa.array(times, pa.int64(), mask=missing)
            declared = {"g": "t" if self.chance(0.5) else f"t:{unit}"}
        columns = {name: make(rng, rows) for name, make in _MAKERS.items()}
        return (
            pa.table({"n": np.arange(rows), "t": time, **columns}),
            unit if not pa.types.is_int64(time.type) or ":" in declared["g"] else "",
            declared,
        )

    def case(self, rows: int) -> Case:
        table, unit, declared = self.table(rows)
        keys: list[tuple[str, str]] = []
        is_windowed = False
        if self.timed or self.chance(0.5):
            is_windowed, *key = self.time_key(unit, table.schema.field("t").type)
            keys.append((key[0], key[1]))
        wanted = self.rng.integers(0 if keys else -1, 3)
        keys += [(k, k) for k in self.rng.choice(_KEYS, max(0, wanted), replace=False).tolist()]
        follows = bool(keys) and keys[0][0] != keys[0][1]
        where = [f"({self.one_of(_CONDITIONS)})"] if self.chance(0.4) else []
        source = "g"
        if self.chance(0.2):
            source = f"(SELECT * FROM g WHERE {self.one_of(_CONDITIONS)}) g"
        text_where = f" WHERE {' AND '.join(where)}" if where else ""
        dropped = ["t IS NOT NULL"] if is_windowed else []
        oracle_where = where + dropped
        oracle_where = f" WHERE {' AND '.join(oracle_where)}" if oracle_where else ""
        names = [f"k{k}" for k in range(len(keys))]
        items = [f"{own} AS {name}" for (own, _), name in zip(keys, names, strict=True)]
        asked = [f"{other} AS {name}" for (_, other), name in zip(keys, names, strict=True)]
        if follows and not pa.types.is_int64(table.schema.field("t").type):
            asked[0] = f"({keys[0][1]}) * {NS[unit]} AS k0"
        if keys and not is_windowed and self.chance(0.15):
            text = f"SELECT DISTINCT {', '.join(items)} FROM {source}{text_where}"
            oracle = f"SELECT DISTINCT {', '.join(asked)} FROM {source}{oracle_where}"
            return Case(text, table, oracle, names, [], declared, unit)
        floats, magnitudes = [], []
        for k in range(self.rng.integers(1, 5)):
            own, other, summed = self.aggregate(in_order=follows)
            items.append(f"{own} AS a{k}")
            asked.append(f"{other} AS a{k}")
            if summed is not None:
                floats.append(f"a{k}")
                magnitudes.append(f"sum(abs(CAST({summed} AS DOUBLE))) AS m{k}")
        by = f" GROUP BY {', '.join(own for own, _ in keys)}" if keys else ""
        other_by = f" GROUP BY {', '.join(other for _, other in keys)}" if keys else ""
        having = f" HAVING {self.one_of(_HAVING)}" if self.chance(0.25) else ""
        text = f"SELECT {', '.join(items)} FROM {source}{text_where}{by}{having}"
        oracle = (
            f"SELECT {', '.join(asked + magnitudes)} FROM {source}{oracle_where}{other_by}{having}"
        )
        return Case(text, table, oracle, names, floats, declared, unit)

    def time_key(self, unit: str, dtype: pa.DataType) -> tuple[bool, str, str]:
        """A key of the event time: whether it is a window, its text, and DuckDB's in integers."""
        form = self.rng.integers(0, 4)
        if form == 0 and not pa.types.is_date32(dtype):
            return False, "t + 0" if pa.types.is_int64(dtype) else "t", "CAST(t AS BIGINT)"
        if form == 1 and pa.types.is_timestamp(dtype):
            word, seconds = self.one_of([("minute", 60), ("HOUR", 3600), ("week", 7 * 86_400)])
            size, since = seconds * NS["s"] // NS[unit], 4 * 86_400 * NS["s"] // NS[unit]
            return False, f"date_trunc('{word}', t)", _start(size, since if word == "week" else 0)
        size, offset = int(self.one_of([7, 60, 1000])), int(self.one_of([0, 3]))
        if unit == "ns":
            size, offset = size * 1000, offset * 1000  # INTERVAL has microseconds
        args = [str(size)] + ([str(size), str(offset)] if offset else [])
        if unit == "D":
            args = [f"'{own} days'" for own in args]
        elif unit:
            args = [f"'{int(own) * NS[unit] // 1000} MICROSECONDS'" for own in args]
        field_name, start = self.one_of(["start", "end"]), _start(size, offset)
        text = f"window(t, {', '.join(args)}).{field_name}"
        return True, text, start if field_name == "start" else f"({start} + {size})"

    def aggregate(self, *, in_order: bool) -> tuple[str, str, str | None]:
        """Text, DuckDB's text, and what is summed as floats."""
        kind = self.one_of(
            ["*", "count", "count_if", "sum", "avg", "extreme", "best", "best", "spread"]
        )
        if kind == "*":
            return "count(*)", "count(*)", None
        if kind == "count":
            value = self.one_of(_KEYS)
            return f"count({value})", f"count({value})", None
        if kind == "count_if":
            condition = self.one_of(_CONDITIONS)
            return f"count_if({condition})", f"count(*) FILTER (WHERE {condition})", None
        if kind in ("sum", "avg"):
            value = self.one_of(_NUMBERS)
            is_float = kind == "avg" or "g64" in value
            return f"{kind}({value})", f"{kind}({value})", value if is_float else None
        if kind == "extreme":
            name, value = self.one_of(["min", "max"]), self.one_of(_ORDERED)
            return f"{name}({value})", f"{name}({value})", None
        if kind == "spread":
            return "max(i32) - min(i32) + count(*)", "max(i32) - min(i32) + count(*)", None
        name, value, by = self.one_of(["min_by", "max_by"]), self.one_of(_PICKED), self.one_of(_BY)
        order = f"{by} {'DESC' if name == 'max_by' else 'ASC'}, {'t, ' if in_order else ''}n"
        first = f"first({value} ORDER BY {order}) FILTER (WHERE ({by}) IS NOT NULL)"
        return f"{name}({value}, {by})", first, None


def _start(size: int, offset: int) -> str:
    """Start of the window of a time, in integers."""
    return f"(t - (((t - {offset}) % {size}) + {size}) % {size})"


def make_case(seed: int, rows: int, *, timed: bool = False) -> Case:
    """The case of a seed."""
    return Maker(np.random.default_rng(seed), timed=timed).case(rows)
