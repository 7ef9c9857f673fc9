"""Tumbling windows in GROUP BY: errors, the definition, and DuckDB on equivalent SQL."""

from __future__ import annotations

import datetime

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.errors import QueryError
from penstock.expr import ops
from penstock.expr.periods import as_tumbling, tumbling
from penstock.plan.group_query import nondecreasing
from penstock.plan.query import JoinQuery
from penstock.query import compile_query
from penstock.types import Kind, Type, int_of
from tests.penstock.kit.devices import InterpretingCpu
from tests.penstock.kit.reference import evaluate

SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.timestamp("ms")), ("n", pa.int64())])
JOIN = "FROM l JOIN r ON r.t BETWEEN l.t - INTERVAL 9 SECONDS AND l.t + INTERVAL 9 SECONDS"


def compiled(select: str, group: str, **options: object) -> JoinQuery:
    text = f"SELECT {select} {JOIN} GROUP BY {group}"
    return compile_query(text, {"l": SCHEMA, "r": SCHEMA}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("select", "group", "message"),
    [
        ("window", "window(l.t, '10 seconds')", "a window is not one value; take window"),
        ("window(l.t, '10 seconds')", "1", "a window is not one value; take window.start"),
        ("window.start", "l.t", "GROUP BY has no window"),
        ("window.begin", "window(l.t, '10 seconds')", "a window has start and end, not begin"),
        (
            "window.start",
            "window(l.t, '10 seconds'), window(l.t, '1 minute')",
            "GROUP BY has more than one window",
        ),
        ("l.t", "window(l.t, '10 seconds')", "l.t is neither a key of GROUP BY"),
        ("count(*)", "window(l.t)", "window takes a time and a size"),
        ("count(*)", "window(l.id > 3, '10 seconds')", "window needs a time or an integer"),
        ("count(*)", "window(l.t, '0 seconds')", "size of a window must be above 0"),
        ("count(*)", "window(l.t, '10 seconds', '5 seconds')", "sliding windows are not"),
        ("count(*)", "window(l.t, '10 parsecs')", "INTERVAL needs a number and one of"),
        ("count(*)", "window(l.t, '10 seconds 5 minutes')", "INTERVAL needs a number and one of"),
        ("count(*)", "window(l.t, l.t)", "window takes constant sizes"),
        ("count(*)", "window(l.t, 10)", "give its size as an interval"),
        ("count(*)", "window(l.n, '10 seconds')", "give its size as an integer, or declare"),
        ("count(*)", "date_trunc('decade', l.t)", "date_trunc takes one of SECOND, MINUTE"),
        ("count(*)", "date_trunc('minute', l.n)", "date_trunc takes one of SECOND, MINUTE"),
        ("count(*)", "time_bucket(INTERVAL 5 SECONDS, l.t)", "write window(t, '10 seconds')"),
    ],
)
def test_errors(select: str, group: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        compiled(select, group)
    assert message in str(caught.value)


@given(
    st.integers(-(1 << 40), 1 << 40),
    st.integers(1, 1 << 20),
    st.integers(-100, 100),
    st.sampled_from(["", "s", "ms", "us"]),
)
def test_a_time_lies_in_its_window(time: int, size: int, offset: int, unit: str) -> None:
    dtype = int_of(64) if not unit else Type(Kind.TIMESTAMP, -(1 << 63), (1 << 63) - 1, unit=unit)
    column = ops.column("l", "t", dtype)
    spans = [ops.const(n) if not unit else ops.duration_const(n, unit) for n in (size, offset)]
    made = tumbling(column, *spans)
    start = evaluate(made.start, {("l", "t"): time})
    assert start <= time < start + size
    assert (start - offset) % size == 0
    assert evaluate(made.end, {("l", "t"): time}) == start + size
    found = as_tumbling(made.start)
    assert found is not None
    assert found.time is column
    assert nondecreasing(made.start, column)


@pytest.mark.parametrize(
    "dtype",
    [
        Type(Kind.DATE, -(1 << 31), (1 << 31) - 1, unit="D"),
        Type(Kind.TIMESTAMP, -(1 << 63), (1 << 63) - 1, unit="s"),
    ],
    ids=str,
)
def test_a_window_finer_than_the_time(dtype: Type) -> None:
    column = ops.column("l", "t", dtype)
    made = tumbling(column, ops.duration_const(7500, "ms"), ops.duration_const(1, "us"))
    assert nondecreasing(made.start, column)
    factor = {"D": 86_400, "s": 1}[dtype.unit] * 1_000_000
    for time in range(-20, 20):
        start = evaluate(made.start, {("l", "t"): time})
        assert start <= time * factor < start + 7_500_000
        assert (start - 1) % 7_500_000 == 0


T = ops.column("l", "t", int_of(64))
STAMP = ops.column("l", "t", Type(Kind.TIMESTAMP, -(1 << 63), (1 << 63) - 1, unit="ms"))
RISING = {
    "t": T,
    "t + 5": ops.add(T, ops.const(5)),
    "5 + t": ops.add(ops.const(5), T),
    "t - 5": ops.sub(T, ops.const(5)),
    "t * 3": ops.mul(T, ops.const(3)),
    "t >> 4": ops.shr(T, ops.const(4)),
    "t - t % 10": ops.sub(T, ops.mod(T, ops.const(10))),
}
OTHERS = {
    "-t": ops.neg(T),
    "5 - t": ops.sub(ops.const(5), T),
    "t * -3": ops.mul(T, ops.const(-3)),
    "t % 10": ops.mod(T, ops.const(10)),
    "t - t % t": ops.sub(T, ops.mod(T, T)),
    "t - (t + 1) % 10": ops.sub(T, ops.mod(ops.add(T, ops.const(1)), ops.const(10))),
    "t * t": ops.mul(T, T),
    "abs(t)": ops.absolute(T),
    "t & 15": ops.bit_and(T, ops.const(15)),
}


@pytest.mark.parametrize("name", [*RISING, *OTHERS])
def test_what_rises_with_time(name: str) -> None:
    expr = {**RISING, **OTHERS}[name]
    values = [evaluate(expr, {("l", "t"): t}) for t in range(-40, 41)]
    assert nondecreasing(expr, T) is (name in RISING)
    if name in RISING:
        assert values == sorted(values)


def tables(seed: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)

    def table(rows: int) -> pa.Table:
        first = datetime.datetime(1969, 12, 31, 23, 59)  # some windows begin before the epoch
        spans = rng.integers(0, 10**5, rows)
        times = [first + datetime.timedelta(milliseconds=int(span)) for span in spans]
        return pa.table(
            {
                "id": pa.array(np.arange(rows)),
                "t": pa.array(times, pa.timestamp("ms")),
                "n": pa.array(rng.integers(-9, 9, rows), mask=rng.random(rows) < 0.1),
            },
            SCHEMA,
        )

    return {"l": table(60), "r": table(70)}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("window(l.t, '7 seconds').start", "time_bucket(INTERVAL '7 seconds', l.t, {epoch})"),
        ("window(r.t, INTERVAL 1500 MILLISECONDS).end",
         "time_bucket(INTERVAL '1.5 seconds', r.t, {epoch}) + INTERVAL '1.5 seconds'"),
        ("window(l.t, '7 seconds', '7 seconds', '3 seconds').start",
         "time_bucket(INTERVAL '7 seconds', l.t, {epoch} + INTERVAL '3 seconds')"),
        ("date_trunc('minute', r.t)", "date_trunc('minute', r.t)"),
        ("date_trunc('week', l.t)", "date_trunc('week', l.t)"),
    ],
)  # fmt: skip
def test_groups_as_duckdb(ours: str, theirs: str) -> None:
    given_tables = tables(3)
    side = "l" if "l.t" in ours else "r"
    rest = f"{side}.n AS n, count(*) AS c, sum(l.n * r.n) AS s, avg(r.n) AS a {JOIN} AND l.n <= r.n"
    theirs = theirs.format(epoch="TIMESTAMP '1970-01-01'")
    with duckdb.connect() as connection:
        for name, one in given_tables.items():
            connection.register(name, one)
        query = f"SELECT {theirs} AS w, {rest} GROUP BY ALL"
        expected = connection.sql(query).fetchall()
    with InterpretingCpu(threads=1) as device:
        query = f"SELECT {ours} AS w, {rest} GROUP BY {ours}, {side}.n"
        got = penstock.sql(query, given_tables, device=device)
    rows = zip(*(column.to_pylist() for column in got.columns), strict=True)
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    assert len(expected) > 3


def test_an_integer_time_with_a_unit_takes_intervals() -> None:
    schema = pa.schema([("t", pa.int64())])
    join = "FROM l JOIN r ON abs(l.t - r.t) < 5"
    text = f"SELECT window.end AS e {join} GROUP BY window(l.t, '2 seconds')"
    times = {"l": "t:ms", "r": "t:ms"}
    query = compile_query(text, {"l": schema, "r": schema}, time=times)
    assert query.aggregation is not None
    assert evaluate(query.aggregation.keys[0], {("l", "t"): 4999}) == 4000
    ((_, end),) = query.aggregation.select
    assert evaluate(end, {("key", "0"): 4000}) == 6000
