"""A stream of groups to run on workers, and what DuckDB makes of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

import penstock
from penstock import Flow, Running

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("name", pa.string()),
        ("t", pa.int64()),
        ("x", pa.int32()),
        ("f", pa.float64()),
    ]
)
#: Aggregates of several kinds, by a text and a number, in windows of 10.
QUERY = (
    "SELECT k, name, t - t % 10 AS w, count(*) AS n, sum(x) AS s, min(x) AS low, max(f) AS high, "
    "avg(x) AS mean, min_by(name, x) AS first FROM a WHERE x IS NULL OR x < 90 "
    "GROUP BY k, name, t - t % 10"
)
#: Ties of min_by are Penstock's own to break: DuckDB is asked for values that decide.
_ORACLE = QUERY.replace("min_by(name, x)", "min(name) FILTER (x IS NOT NULL)")

Rows = list[tuple[Any, ...]]


def batches(
    seed: int, count: int, rows: int = 40, *, disorder: int = 4, keys: int = 6
) -> list[pa.RecordBatch]:
    """Random rows in about the order of time, none later than ``disorder`` allows."""
    rng, made, largest = Random(seed), [], 0
    known = [None, *range(keys)]
    for place in range(count):
        times = []
        for row in range(rows):
            largest = max(largest, place * 5 + row * 5 // rows)
            times.append(largest - rng.randint(0, disorder))
        columns = [
            [rng.choice(known) for _ in times],
            [rng.choice([None, "", "é", "north", "south" * 9]) for _ in times],
            times,
            [rng.choice([None, rng.randint(-100, 100)]) for _ in times],
            [rng.choice([None, float("nan"), -0.0, rng.random()]) for _ in times],
        ]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return made


def opened(
    workers: int | None = 2,
    *,
    flow: Mapping[str, Any] | None = None,
    ordered: bool = False,
    query: str = QUERY,
    lease_s: float = 600.0,
    **how: Any,
) -> Any:
    """A stream over :data:`SCHEMA`, with disorder 4."""
    chosen = Flow(running=Running(ordered=ordered, timeout_s=lease_s), **(flow or {}))
    how = {"disorder": 4, **how}
    return penstock.stream(
        query, {"a": SCHEMA}, time={"a": "t"}, workers=workers, flow=chosen, **how
    )


def wanted(given: Sequence[pa.RecordBatch], query: str = _ORACLE) -> Rows:
    """The groups of all rows, by DuckDB, sorted."""
    with duckdb.connect() as base:
        base.register("a", pa.Table.from_batches(given, SCHEMA))
        return comparable(base.sql(query).to_arrow_table())


def comparable(table: pa.Table) -> Rows:
    """Rows in one order, as plain values that can be compared."""
    rows = [
        tuple(map(_plain, row)) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)
    ]
    return sorted(rows, key=repr)


def difference(found: Rows, expected: Rows) -> str:
    """What rows are too many and what too few, or nothing.

    Where pytest runs in continuous integration, it compares lists that differ line by line, which
    takes it longer than a test may run if there are thousands.
    """
    ours, theirs = Counter(found), Counter(expected)
    few, many = list((theirs - ours).elements()), list((ours - theirs).elements())
    if not few and not many:
        return ""
    return f"{len(few)} rows are missing {few[:5]}, {len(many)} too many {many[:5]}"


def listed(table: pa.Table) -> Rows:
    """Rows in their own order, as plain values that can be compared."""
    return [
        tuple(map(_plain, row)) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if value != value else round(value, 12) + 0.0
    return value


def numbered(stream: Any) -> Iterator[tuple[int, pa.Table]]:
    """All numbers that can be polled now."""
    while (polled := stream.poll()) is not None:
        yield polled
