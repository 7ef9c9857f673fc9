"""Aggregates of expressions whose operands have several scales and units, as in DuckDB.

Nullable columns are what tables mostly have, and mostly they hold no NULL: both cases are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random

import duckdb
import pyarrow as pa
import pytest

import penstock
from penstock.errors import DataError
from penstock.host.device.base import Device
from tests.penstock.kit.devices import InterpretingCpu

R = {
    "n": pa.int64(),
    "t": pa.int64(),
    "x": pa.int32(),
    "p": pa.decimal128(10, 2),
    "ts": pa.timestamp("s"),
    "span": pa.duration("s"),
    "day": pa.date32(),
}
S = {
    "m": pa.int64(),
    "t": pa.int64(),
    "q": pa.int64(),
    "d": pa.decimal128(8, 3),
    "us": pa.timestamp("us"),
    "ms": pa.duration("ms"),
}
NUMBERS = (
    "r.p - s.q",
    "r.p + s.d",
    "r.x + 2.6",
    "r.x * s.d",
    "2.5 * r.x - s.q * 0.125",
    "abs(r.p - s.q)",
    "greatest(r.p, s.q, r.x)",
    "least(s.d, r.x)",
    "r.p % s.d",
    "s.q % r.p",
    "CASE WHEN r.x > s.d THEN r.p ELSE s.q END",
    "coalesce(s.q, r.p, 1.125)",
    "-(r.p - s.d)",
)
SPANS = (
    "r.ts - s.us",
    "r.span - s.ms",
    "greatest(r.span - s.ms, s.ms - r.span)",
    "greatest(r.span, s.ms)",
)
TIMES = (
    "greatest(r.ts, s.us)",
    "r.ts - s.ms",
    "CASE WHEN s.us > r.day THEN s.us END",
    "s.us + r.span",
)
WINDOW = "s.t BETWEEN r.t - 1 AND r.t + 1"
GROUPS = (
    "sum({0})",
    "min({0}), max({0})",
    "avg({0})",
    # DuckDB's count_if is NULL where all conditions are.
    "count({0}), coalesce(count_if({0} > 0.5), 0)",
    "min_by(r.n, {0}), max_by(r.n, {0})",
)


def drawn(rng: Random, types: dict[str, pa.DataType], holes: bool) -> pa.Table:
    """Rows without NULL, or with some."""
    make = {
        "n": lambda: 0,
        "m": lambda: 0,
        "t": lambda: rng.randint(0, 3),
        "x": lambda: rng.randint(-9, 9),
        "q": lambda: rng.randint(-9, 9),
        "p": lambda: Decimal(rng.randint(-999, 999)).scaleb(-2),
        "d": lambda: Decimal(rng.randint(-9999, 9999)).scaleb(-3),
        "ts": lambda: datetime(2020, 1, 1) + timedelta(seconds=rng.randint(0, 99)),
        "us": lambda: datetime(2020, 1, 1) + timedelta(microseconds=rng.randint(0, 99_999_999)),
        "day": lambda: datetime(2020, 1, 1).date(),
        "span": lambda: timedelta(seconds=rng.randint(-9, 9)),
        "ms": lambda: timedelta(milliseconds=rng.randint(-9999, 9999)),
    }
    rows = 7
    columns = {
        name: [None if holes and rng.random() < 0.15 else make[name]() for _ in range(rows)]
        for name in types
    }
    for name in ("n", "m"):
        if name in columns:
            columns[name] = list(range(rows))
    return pa.table({name: pa.array(columns[name], types[name]) for name in types})


class Case:
    """Tables, and what both engines say of them."""

    def __init__(self, seed: int, holes: bool) -> None:
        rng = Random(seed)
        self.tables = {"r": drawn(rng, R, holes), "s": drawn(rng, S, holes)}
        self.connection = duckdb.connect()
        for name, table in self.tables.items():
            self.connection.register(name, table)

    def check(self, text: str, device: Device) -> None:
        """The same rows, in any order."""
        wanted = self.connection.sql(text).fetchall()
        found = penstock.sql(text, self.tables, time={"r": "t", "s": "t"}, device=device)
        assert rows_of(tuple(row.values()) for row in found.to_pylist()) == rows_of(wanted), text


def rows_of(rows) -> list[tuple]:
    return sorted((tuple(map(plain, row)) for row in rows), key=repr)


def plain(value: object) -> object:
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return round(float(value), 6) if isinstance(value, Decimal | float | int) else value


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


@pytest.fixture(scope="module", params=[(1, False), (3, True)], ids=str)
def tables(request: pytest.FixtureRequest) -> Iterator[Case]:
    made = Case(*request.param)
    yield made
    made.connection.close()


def named(outputs: str) -> str:
    """Output columns with names of their own."""
    parts, depth = [""], 0
    for letter in outputs:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return ", ".join(f"{part} AS c{k}" for k, part in enumerate(parts))


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers(device: Device, tables: Case, number: str) -> None:
    for group in GROUPS:
        tables.check(
            f"SELECT r.n, {named(group.format(number))} FROM r JOIN s ON {WINDOW} GROUP BY r.n",
            device,
        )
    for outputs, rest in (
        (f"sum({number}) AS c", f"ON {WINDOW}"),
        ("count(*) AS c", f"ON {WINDOW} AND {number} < 0.5"),
        ("r.x, count(*) AS c", f"ON {WINDOW} GROUP BY r.x HAVING sum({number}) > 0.25"),
        ("DISTINCT r.n", f"ON {WINDOW} AND {number} >= 1"),
        (f"DISTINCT {number} AS v", f"ON {WINDOW}"),
        (f"r.n, s.m, max({number}) AS c", f"ON {WINDOW} GROUP BY r.n, s.m"),
    ):
        tables.check(f"SELECT {outputs} FROM r JOIN s {rest}", device)


@pytest.mark.parametrize("value", SPANS + TIMES)
def test_times(device: Device, tables: Case, value: str) -> None:
    if "day" in value:
        value = value.replace("r.day", "CAST(r.day AS TIMESTAMP)")
    for outputs in (f"min({value}), max({value})", f"count({value})"):
        tables.check(f"SELECT r.n, {named(outputs)} FROM r JOIN s ON {WINDOW} GROUP BY r.n", device)
    tables.check(
        f"SELECT r.n, {named(f'min_by(s.m, {value}), max_by(s.m, {value})')} "
        f"FROM r JOIN s ON {WINDOW} GROUP BY r.n",
        device,
    )
    limit = "INTERVAL 3 SECONDS" if value in SPANS else "s.us"
    tables.check(f"SELECT count(*) AS c FROM r JOIN s ON {WINDOW} AND {value} > {limit}", device)


def test_a_cast_of_columns_without_null_still_checks(device: Device) -> None:
    one = pa.table({"t": pa.array([0], pa.int64()), "x": pa.array([1 << 40], pa.int64())})
    with pytest.raises(DataError, match="overflows"):
        penstock.sql(
            "SELECT sum(CAST(r.x AS INT)) AS c FROM r JOIN s ON s.t = r.t",
            {"r": one, "s": one},
            time={"r": "t", "s": "t"},
            device=device,
        )


@pytest.mark.parametrize("keys", ["", "a.d, b.n"])
def test_days_between_dates(device: Device, keys: str) -> None:
    """Arrow has no durations in days, so partial aggregates of them are in seconds."""
    day = date(2024, 2, 28)
    a = pa.table({"t": [0, 0], "d": pa.array([day, day + timedelta(3)], pa.date32())})
    b = pa.table({"t": [0], "d": pa.array([day + timedelta(9)], pa.date32()), "n": [1]})
    text = (
        "SELECT min(b.d - a.d) AS low, max(b.d - a.d) AS high, "
        "min(INTERVAL 7 WEEKS) AS weeks FROM a JOIN b ON a.t = b.t"
    )
    text += f" GROUP BY {keys}" if keys else ""
    rows = penstock.sql(text, {"a": a, "b": b}, time={"a": "t", "b": "t"}, device=device)
    found = sorted(tuple(value.days for value in row.values()) for row in rows.to_pylist())
    assert found == ([(6, 6, 49), (9, 9, 49)] if keys else [(6, 9, 49)])
