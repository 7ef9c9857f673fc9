"""Months, quarters and years: their first days, and groups, windows and days of streams."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.expr import ops
from penstock.expr.columns import Vector, evaluate_columns
from penstock.expr.periods import PERIODS, dated, period_start
from penstock.types import from_arrow

DAY = 86_400
US = pa.timestamp("us")


@pytest.mark.parametrize("name", PERIODS)
def test_first_days(name: str) -> None:
    date = ops.column("l", "d", from_arrow(pa.date32(), column="d"))
    first = period_start(name, date)
    assert dated(first) is date
    assert dated(date) is None
    days = np.concatenate([np.arange(-720_000, 2_900_000, 97), np.arange(-40_000, 40_000)])
    known = {("l", "d"): Vector(days, None, int(days[0]), int(days.max()))}
    found = evaluate_columns(first, known, len(days)).values
    months = days.astype("datetime64[D]").astype("datetime64[M]")
    step = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[name]
    passed = months.astype(np.int64) % step
    wanted = (months - passed).astype("datetime64[D]").astype(np.int64)
    assert np.array_equal(found, wanted)


def disordered(rng: Random, count: int, days: int, late_s: int) -> pa.Table:
    """Rows around ends of months, each at most so many seconds out of order."""
    base = int(dt.datetime(2023, 12, 1, tzinfo=dt.UTC).timestamp())
    ends = [base + day * DAY for day in range(0, days, 5)]
    times = sorted(rng.choice(ends) + rng.randint(-900, 900) for _ in range(count))
    order = sorted(range(count), key=lambda row: times[row] + rng.randint(0, late_s))
    return pa.table(
        {
            "id": order,
            "k": [rng.randint(0, 1) for _ in order],
            "s": [rng.choice(["x", "X", "y", None]) for _ in order],
            "t": pa.array([times[row] * 1_000_000 for row in order], US),
        }
    )


def streamed(text: str, tables: dict[str, pa.Table], **options: Any) -> Counter:
    """The rows of a stream to which no row comes late, some of them before its end."""
    schemas = {name: table.schema for name, table in tables.items()}
    disorder = dt.timedelta(seconds=1200)
    with penstock.stream(text, schemas, disorder=disorder, **options) as running:
        parts = []
        for start in range(0, 120, 8):
            for name, table in tables.items():
                running.push(name, table.slice(start, 8))
            parts.append(running.poll())
        assert not any(rows.num_rows for rows in running.late().values())
        assert any(part.num_rows for part in parts)
        parts.append(running.close())
    return Counter(map(str, pa.concat_tables(parts).to_pylist()))


@pytest.mark.parametrize("zone", ["UTC", "America/Sao_Paulo"])
@pytest.mark.parametrize("name", ["month", "quarter", "year"])
def test_groups_of_a_stream(name: str, zone: str) -> None:
    rows = disordered(Random(name), 120, 500, 600)
    instants = rows.set_column(3, "t", rows["t"].cast(pa.timestamp("us", "UTC")))
    text = f"SELECT date_trunc('{name}', t) AS m, count(*) AS n FROM a GROUP BY m"
    text = text.replace("BY m", f"BY date_trunc('{name}', t)")
    count: Counter = Counter()
    for time in instants["t"].to_pylist():
        day = time.astimezone(ZoneInfo(zone)).date()
        step = {"month": 1, "quarter": 3, "year": 12}[name]
        first = day.replace(day=1, month=(day.month - 1) // step * step + 1)
        count[dt.datetime(first.year, first.month, 1, tzinfo=ZoneInfo(zone))] += 1
    wanted = Counter(str({"m": m, "n": n}) for m, n in count.items())
    assert streamed(text, {"a": instants}, time_zone=zone) == wanted
    found = penstock.sql(text, {"a": instants}, time_zone=zone)
    assert Counter(map(str, found.to_pylist())) == wanted


JOINS = [
    "SELECT a.id, b.id AS j FROM a {} JOIN b ON CAST(a.t AS DATE) = CAST(b.t AS DATE)",
    "SELECT a.id, b.id AS j FROM a {} JOIN b ON CAST(a.t AS DATE) + 1 = CAST(b.t AS DATE)",
    "SELECT a.id, b.id AS j FROM a {} JOIN b ON a.k = b.k "
    "AND date_trunc('month', a.t) = date_trunc('month', b.t)",
    "SELECT a.id FROM a WHERE {} EXISTS (SELECT 1 FROM b WHERE lower(a.s) = lower(b.s) "
    "AND b.t BETWEEN a.t - INTERVAL 5 MINUTES AND a.t)",
]


@pytest.mark.parametrize("text", JOINS)
@pytest.mark.parametrize("kind", ["", "LEFT"])
def test_joins_of_streams(text: str, kind: str) -> None:
    text = text.format(("NOT" if kind else "") if "EXISTS" in text else kind)
    rng = Random(text)
    tables = {name: disordered(rng, 120, 90, 600) for name in "ab"}
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        known = database.sql(text).to_arrow_table().to_pylist()
    assert len(known) > 20
    assert streamed(text, tables) == Counter(map(str, known))
