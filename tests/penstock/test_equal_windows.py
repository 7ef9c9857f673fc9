"""Joins of rows in the same tumbling window, beside DuckDB."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import QueryError
from penstock.query.compiler import compile_query
from tests.kit.effort import examples

SCHEMA = pa.schema(
    [pa.field("n", pa.int64(), nullable=False), ("k", pa.int64()), ("t", pa.int64())]
)
TIME = {"a": "t", "b": "t"}
KINDS = ("", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
_TIMES = st.one_of(st.none(), st.integers(-40, 40))
_ROWS = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 2)), _TIMES), max_size=25)


def table(rows: list[tuple[int | None, int | None]]) -> pa.Table:
    columns = [range(len(rows)), [k for k, _ in rows], [t for _, t in rows]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def sorted_rows(found: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(c.to_pylist() for c in found.columns), strict=True)))


@settings(deadline=None, max_examples=examples(150))
@given(
    _ROWS,
    _ROWS,
    st.sampled_from(KINDS),
    st.integers(1, 15),
    st.integers(0, 9),
    st.sampled_from(["", " AND a.k = b.k", " AND a.t <= b.t", " AND b.t BETWEEN a.t - 2 AND a.t"]),
)
def test_rows_of_one_window_meet(left, right, kind: str, size: int, offset: int, more: str) -> None:
    tables = {"a": table(left), "b": table(right)}
    shown = "a.n AS i" if kind.startswith("LEFT ") else "a.n AS i, b.n AS j"
    text = f"SELECT {shown} FROM a {kind} JOIN b ON "
    calls = [f"window({s}.t, {size}, {size}, {offset})" for s in "ab"]
    found = penstock.sql(text + " = ".join(calls) + more, tables, time=TIME)
    numbers = [f"floor(({s}.t - {offset}) / {size})" for s in "ab"]
    with duckdb.connect() as base:
        for name, one in tables.items():
            base.register(name, one)
        oracle = (text + " = ".join(numbers) + more).replace("LEFT SEMI", "SEMI")
        wanted = base.sql(oracle.replace("LEFT ANTI", "ANTI")).to_arrow_table()
    assert sorted_rows(found) == sorted_rows(wanted)


def test_groups_above_and_streams() -> None:
    query = (
        "SELECT a.k AS k, window(a.t, 10).start AS w, count(*) AS n FROM a JOIN b "
        "ON a.k = b.k AND window(a.t, 10) = window(b.t, 10) GROUP BY a.k, window(a.t, 10)"
    )
    tables = {
        "a": table([(k % 3, t) for k, t in enumerate(range(0, 60, 2))]),
        "b": table([(k % 2, t) for k, t in enumerate(range(0, 60, 3))]),
    }
    whole = penstock.sql(query, tables, time=TIME)
    assert whole.num_rows == 12
    with penstock.stream(query, {"a": SCHEMA, "b": SCHEMA}, time=TIME) as stream:
        for name in ("a", "b"):
            for batch in tables[name].to_batches(max_chunksize=7):
                stream.push(name, batch)
        found = stream.close()
    assert sorted_rows(found) == sorted_rows(whole)


@pytest.mark.parametrize("nullable", [False, True])
def test_the_window_of_times_in_other_units(nullable: bool) -> None:
    schemas = {
        "a": pa.schema([pa.field("t", pa.timestamp("us"), nullable=nullable)]),
        "b": pa.schema([pa.field("t", pa.timestamp("s"), nullable=nullable)]),
    }
    text = "SELECT a.t AS t FROM a JOIN b ON window(a.t, '1 minute') = window(b.t, '1 minute')"
    query = compile_query(text, schemas, time=TIME)
    assert str(query.window) == "-59999999 <= right.time - left.time <= 59000000 us"


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("window(a.t, 10) = window(b.t, 12)", "need the same size and offset on both sides"),
        ("window(a.t, 10) = window(b.t, 10, 10, 3)", "need the same size and offset"),
        ("window(a.t, 10) = b.t", "a window equals only another one"),
        ("window(a.t, 10) < window(b.t, 10)", "or compare it with another window by ="),
        ("window(a.t, 10, 5) = window(b.t, 10, 5)", "sliding windows are not supported"),
    ],
)
def test_other_comparisons_are_refused(condition: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        compile_query(
            f"SELECT a.n AS n FROM a JOIN b ON {condition}", {"a": SCHEMA, "b": SCHEMA}, time=TIME
        )
