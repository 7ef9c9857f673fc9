"""Groups in plain Python, and random rows: the oracle of the tests of this folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

EPOCH = datetime(1970, 1, 1)
SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("ms")),
        ("k", pa.int64()),
        ("small", pa.int8()),
        ("name", pa.string()),
        ("code", pa.dictionary(pa.int32(), pa.string())),
        ("raw", pa.binary()),
        ("flag", pa.bool_()),
        ("price", pa.decimal128(20, 2)),
        ("huge", pa.decimal128(38, 0)),
        ("day", pa.date32()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("v", pa.int64()),
        ("u", pa.uint64()),
    ]
)
Row = dict[str, Any]
Get = Callable[[Row], Any]


@dataclass(frozen=True)
class By:
    """An aggregate: its function, its value, and by what ``min_by`` and ``max_by`` compare."""

    function: str
    value: Get | None = None
    by: Get | None = None


@dataclass(frozen=True)
class Case:
    """A query in SQL and in Python."""

    name: str
    sql: str
    keys: Sequence[Get]
    aggregates: Sequence[By]
    where: Get = lambda row: True
    #: Position of the window's start among the keys, None for a table that ends.
    time: int | None = None
    windowed: bool = True
    having: Callable[[tuple, list], bool] = field(default=lambda key, values: True)


def window(size_s: int) -> Get:
    """The start of a row's window."""

    def start(row: Row) -> Any:
        since = (row["t"] - EPOCH) // timedelta(milliseconds=1)
        return EPOCH + timedelta(milliseconds=since // (1000 * size_s) * 1000 * size_s)

    return start


def get(name: str) -> Get:
    return lambda row: row[name]


def plain(value: Any) -> Any:
    """A key as it is compared: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def groups(case: Case, rows: Sequence[Row]) -> dict[tuple, list]:
    """Aggregates by key."""
    held: dict[tuple, list[Row]] = {} if case.keys else {(): []}
    for row in rows:
        if case.where(row) is not True or (case.windowed and row["t"] is None):
            continue
        held.setdefault(tuple(plain(key(row)) for key in case.keys), []).append(row)
    made = {key: [_value(one, own) for one in case.aggregates] for key, own in held.items()}
    return {key: values for key, values in made.items() if case.having(key, values)}


def _order(value: Any) -> tuple:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


def _value(one: By, rows: list[Row]) -> Any:
    if one.function == "count" and one.value is None:
        return len(rows)
    value = one.value
    assert value is not None
    if one.by is not None:
        by = one.by
        sign = -1 if one.function == "max_by" else 1
        known = [row for row in rows if by(row) is not None]
        place = lambda row: (row["t"] or datetime.max, row["feed"], row["row"])  # noqa: E731
        if not known:
            return None
        if sign < 0:
            return value(min(known, key=lambda row: (-by(row), *place(row))))
        return value(min(known, key=lambda row: (_order(by(row)), *place(row))))
    values = [value(row) for row in rows if value(row) is not None]
    if one.function == "count":
        return len(values)
    if not values:
        return None
    if one.function == "sum":
        return sum(values)
    if one.function == "avg":
        total = sum(values)
        return float(total) / len(values) if isinstance(total, float) else _mean(total, len(values))
    return (min if one.function == "min" else max)(values, key=_order)


def _mean(total: Any, count: int) -> float | Decimal:
    if isinstance(total, Decimal):
        return (total / count).quantize(Decimal("1e-6"), ROUND_HALF_UP)
    return total / count


def random_rows(
    rng: np.random.Generator, count: int, first_s: float, span_s: float, keys: int = 7
) -> list[Row]:
    """Rows with NULL, NaN and both zeros, in no order of time."""

    def some(make: Callable[[], Any], nulls: float = 0.15) -> Any:
        return None if rng.random() < nulls else make()

    words = ["", "a", "bb", "view", "ünï", "a much longer text than eight bytes"]
    floats = [0.0, -0.0, float("nan"), float("inf"), 1.5, -2.25, 3.0]
    rows = []
    for _ in range(count):
        # Few times, so that rows are alike but for their feed and number.
        ms = int((first_s + rng.random() * span_s) * 2) * 500
        rows.append(
            {
                "t": some(lambda ms=ms: EPOCH + timedelta(milliseconds=ms), 0.05),
                "k": some(lambda: int(rng.integers(-keys, keys)) * 10**12),
                "small": some(lambda: int(rng.integers(-100, 100))),
                "name": some(lambda: str(rng.choice(words)) + str(rng.integers(keys))),
                "code": some(lambda: str(rng.choice(words))),
                "raw": some(lambda: bytes(rng.integers(0, 3, rng.integers(0, 4)).tolist())),
                "flag": some(lambda: bool(rng.integers(2))),
                "price": some(lambda: Decimal(int(rng.integers(-500, 500))) / 100),
                "huge": some(lambda: Decimal(int(rng.integers(-2, 3)) * 10**29 + 1)),
                "day": some(lambda: date(2024, 1, 1) + timedelta(days=int(rng.integers(3)))),
                "f": some(lambda: floats[rng.integers(len(floats))]),
                "g": some(lambda: float(rng.integers(-4, 5)) / 4),
                "v": some(lambda: int(rng.integers(-5, 5)) * (1 << 60)),
                "u": some(lambda: int(rng.integers(0, 4)) << 62),
            }
        )
    return rows


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    plain_rows = [{name: row[name] for name in SCHEMA.names} for row in rows]
    return pa.RecordBatch.from_pylist(plain_rows, SCHEMA)


V, K = get("v"), get("k")
CASES = (
    Case(
        "numbers",
        "SELECT k, window(t, '10 seconds').start AS w, count(*) AS n, count(v) AS c, "
        "avg(v) AS a, min(v) AS lo, max(v) AS hi, sum(small) AS s, "
        "sum(CASE WHEN flag THEN small ELSE NULL END) AS z, max(small * 2 - k) AS far "
        "FROM s WHERE small % 3 <> 0 OR flag GROUP BY k, window(t, '10 seconds')",
        (K, window(10)),
        (
            By("count"),
            By("count", V),
            By("avg", V),
            By("min", V),
            By("max", V),
            By("sum", get("small")),
            By("sum", lambda r: r["small"] if r["flag"] else None),
            By("max", lambda r: None if None in (r["small"], r["k"]) else r["small"] * 2 - r["k"]),
        ),
        lambda r: bool(r["flag"]) or (r["small"] is not None and r["small"] % 3 != 0),
        time=1,
    ),
    Case(
        "texts",
        "SELECT window(t, '5 seconds').start AS w, name, raw, code, min_by(name, v) AS a, "
        "max_by(code, v) AS b, min_by(k, f) AS c, max_by(price, small) AS d, count(name) AS n "
        "FROM s GROUP BY name, raw, code, window(t, '5 seconds')",
        (window(5), get("name"), get("raw"), get("code")),
        (
            By("min_by", get("name"), V),
            By("max_by", get("code"), V),
            By("min_by", K, get("f")),
            By("max_by", get("price"), get("small")),
            By("count", get("name")),
        ),
        time=0,
    ),
    Case(
        "kinds",
        "SELECT f, g, flag, price, day, huge, u, window(t, '20 seconds').start AS w, "
        "min(f) AS lo, max(f) AS hi, sum(g) AS sg, avg(g) AS ag, sum(price) AS sp, "
        "avg(price) AS ap, min(huge) AS mh, min(u) AS mu, max(day) AS md, max(g) AS mg "
        "FROM s WHERE name IS NOT NULL AND name <> 'a1' "
        "GROUP BY f, g, flag, price, day, huge, u, window(t, '20 seconds')",
        (*map(get, ("f", "g", "flag", "price", "day", "huge", "u")), window(20)),
        (
            By("min", get("f")),
            By("max", get("f")),
            By("sum", get("g")),
            By("avg", get("g")),
            By("sum", get("price")),
            By("avg", get("price")),
            By("min", get("huge")),
            By("min", get("u")),
            By("max", get("day")),
            By("max", get("g")),
        ),
        lambda r: r["name"] is not None and r["name"] != "a1",
        time=7,
    ),
    Case(
        "everything",
        "SELECT count(*) AS n, sum(v) AS s, min_by(name, small) AS m FROM s WHERE v = 0",
        (),
        (By("count"), By("sum", V), By("min_by", get("name"), get("small"))),
        lambda r: r["v"] == 0,
        windowed=False,
    ),
    Case(
        "distinct",
        "SELECT DISTINCT name, day, k % 7 AS r FROM s WHERE code IN ('a', 'view')",
        (
            get("name"),
            get("day"),
            lambda r: None if r["k"] is None else int(math.fmod(r["k"], 7)),
        ),
        (),
        lambda r: r["code"] in ("a", "view"),
        windowed=False,
    ),
    Case(
        "having",
        "SELECT small, count(*) AS n FROM s GROUP BY small HAVING count(*) > 3",
        (get("small"),),
        (By("count"),),
        windowed=False,
        having=lambda key, values: values[0] > 3,
    ),
)
