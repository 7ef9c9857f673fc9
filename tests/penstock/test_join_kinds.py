"""Outer, semi and anti joins of tables against DuckDB on the same SQL; ROWS by brute force."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import QueryError
from penstock.host.device.base import Device
from penstock.query import JoinKind, compile_query
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("t", pa.int64()),
        pa.field("x", pa.int32()),
        pa.field("s", pa.string()),
    ]
)
TIME = {"l": "t", "r": "t"}
SEEDS = st.integers(0, 1 << 32)
EXISTENCE = {"LEFT SEMI": "EXISTS", "LEFT ANTI": "NOT EXISTS"}
KINDS = ("INNER", "LEFT", "RIGHT", "FULL OUTER", *EXISTENCE)
WINDOW = "r.t BETWEEN l.t - 2 AND l.t + 3"
CONDITIONS = (
    "l.x = r.x",
    "abs(l.x - r.x) < 2",
    "l.x * r.x > 2",
    "l.x = r.x AND l.n > 4",
    "l.x = r.x AND r.n > 4",
    "l.x <= r.x AND l.s = 'a' AND r.s <> 'b'",
    "l.s = r.s",
    "FALSE",
)
OUTPUT = (
    "l.n AS ln, l.x + 1 AS lx, l.s AS ls, r.n AS rn, coalesce(r.x, -1) AS rx, r.n IS NULL AS rm"
)
LEFT_OUTPUT = "l.n AS ln, l.x + 1 AS lx, l.s AS ls"


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


def table(rng: Random, rows: int) -> pa.Table:
    def maybe(value: object) -> object:
        return None if rng.random() < 0.12 else value

    made = [
        {
            "n": k,
            "t": maybe(rng.randint(0, 30)),
            "x": maybe(rng.randint(0, 3)),
            "s": maybe(rng.choice("abc")),
        }
        for k in range(rows)
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def rows_of(found: pa.Table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def query(kind: str, condition: str, where: str = "") -> str:
    output = LEFT_OUTPUT if kind in EXISTENCE else OUTPUT
    return f"SELECT {output} FROM l {kind} JOIN r ON {condition} AND {WINDOW} {where}"


def existence(kind: str, condition: str, where: str = "") -> str:
    """A semi or anti join as a subquery: DuckDB 2.0 garbles strings of its own semi joins."""
    inner = f"{EXISTENCE[kind]} (SELECT 1 FROM r WHERE {condition} AND {WINDOW})"
    return f"SELECT {LEFT_OUTPUT} FROM l {where or 'WHERE TRUE'} AND {inner}"


@settings(deadline=None, max_examples=examples(120))
@given(SEEDS, st.sampled_from(KINDS), st.sampled_from(CONDITIONS), st.booleans())
def test_as_in_duckdb(device: Device, seed: int, kind: str, on: str, filtered: bool) -> None:
    rng = Random(seed)
    tables = {"l": table(rng, rng.randint(0, 25)), "r": table(rng, rng.randint(0, 25))}
    side = {"RIGHT": "r", "FULL OUTER": ""}.get(kind, "l")
    where = f"WHERE {side}.n <> 3" if filtered and side else ""
    text = query(kind, on, where)
    oracle = existence(kind, on, where) if kind in EXISTENCE else text
    with duckdb.connect() as connection:
        for name, one in tables.items():
            connection.register(name, one)
        expected = rows_of(connection.sql(oracle).to_arrow_table())
    assert rows_of(penstock.sql(text, tables, time=TIME, device=device)) == expected


@settings(deadline=None, max_examples=examples(60))
@given(SEEDS, st.sampled_from(KINDS), st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_rows_windows(device: Device, seed: int, kind: str, sizes: tuple[int, int]) -> None:
    rng = Random(seed)
    tables = {
        name: table(rng, rng.randint(0, 15)).filter(pa.compute.field("t").is_valid())
        for name in "lr"
    }
    arrivals = sorted(
        (row["t"], place, row["n"], row["x"])
        for place, name in enumerate("lr")
        for row in tables[name].to_pylist()
    )
    seen: tuple[list, list] = ([], [])
    pairs: list[tuple[int, int]] = []
    for _, place, n, x in arrivals:
        for m, y in seen[1 - place][-sizes[1 - place] :]:
            if x is not None and x == y:
                pairs.append((n, m) if place == 0 else (m, n))
        seen[place].append((n, x))
    lefts, rights = ({p[k] for p in pairs} for k in (0, 1))
    alone_left = [(n, None) for n, _ in seen[0] if n not in lefts]
    alone_right = [(None, n) for n, _ in seen[1] if n not in rights]
    expected = {
        "INNER": pairs,
        "LEFT": pairs + alone_left,
        "RIGHT": pairs + alone_right,
        "FULL OUTER": pairs + alone_left + alone_right,
        "LEFT SEMI": [(n,) for n in lefts],
        "LEFT ANTI": [(n,) for n, _ in alone_left],
    }[kind]
    output = "l.n AS ln" if kind in EXISTENCE else "l.n AS ln, r.n AS rn"
    found = penstock.sql(
        f"SELECT {output} FROM l {kind} JOIN r ON l.x = r.x",
        tables,
        time=TIME,
        rows={"l": sizes[0], "r": sizes[1]},
        device=device,
    )
    assert rows_of(found) == sorted(expected, key=repr)


def test_kinds() -> None:
    schemas = {"l": SCHEMA, "r": SCHEMA}
    compiled = compile_query(query("LEFT", "l.x = r.x"), schemas, time=TIME)
    assert compiled.kind is JoinKind.LEFT
    assert compiled.kind.null_supplying == {"r"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (query("LEFT", "l.x = r.x", "WHERE r.x = 1"), "WHERE tests r, whose columns are NULL"),
        (query("FULL", "l.x = r.x", "WHERE l.x = 1"), "WHERE tests l, whose columns are NULL"),
        (query("LEFT", "l.x = r.x", "WHERE l.x < r.x"), "subquery in FROM"),
        (query("LEFT SEMI", "l.x = r.x").replace("l.s", "r.s"), "r.s"),
        (query("NATURAL", "l.x = r.x"), "NATURAL JOIN takes no ON"),
        (
            "SELECT l.n, count(*) FROM l LEFT JOIN r ON l.x = r.x AND l.t = r.t GROUP BY l.n",
            "aggregates over a LEFT OUTER JOIN are not supported",
        ),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        compile_query(text, {"l": SCHEMA, "r": SCHEMA}, time=TIME)
