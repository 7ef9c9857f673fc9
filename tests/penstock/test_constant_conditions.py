"""Conditions that are constant, in every place and kind of join, against DuckDB; streams, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError
from penstock.host.device.base import Device
from penstock.host.join.stream import JoinStream
from penstock.host.workers import Workers
from penstock.query import compile_query
from tests.host.workers.kit.together import all_of, together
from tests.kit.effort import effort
from tests.penstock.kit.devices import InterpretingCpu

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.int64()), ("x", pa.int32())])
TIME = {"a": "t", "b": "t"}
A = [(1, 0, 1), (2, 1, 5), (3, 1, None), (4, 3, 4), (5, None, 5)]
B = [(11, 0, 1), (12, 1, 5), (13, 2, 3), (14, 9, 9), (15, None, 5)]
TABLES = {
    name: pa.table(list(map(list, zip(*rows, strict=True))), schema=SCHEMA)
    for name, rows in (("a", A), ("b", B))
}
EXISTENCE = {"LEFT SEMI": "EXISTS", "LEFT ANTI": "NOT EXISTS"}
KINDS = ("INNER", "LEFT", "RIGHT", "FULL OUTER", *EXISTENCE)
WINDOW = "b.t BETWEEN a.t - 1 AND a.t + 1"

#: The one below that is not constant.
VARIABLE = "(SIDE.x > 3 OR 1 = 0)"
#: Constant conditions; ``flag`` and ``nothing`` are parameters.
CONSTANTS = (
    "FALSE",
    "NULL",
    "1 = 0",
    "NOT 1 < 2",
    "1 > NULL",
    "1 = 1",
    "flag",
    "NOT flag",
    "nothing",
    "(SIDE.x > 3 AND 1 = 0)",
    "(SIDE.x > 3 AND NULL)",
    "(SIDE.x > 3 OR 1 = 1)",
    VARIABLE,
    "(SIDE.x > 3 AND 1 = 0 OR SIDE.x > 4 AND 2 = 3)",
    "SIDE.x > NULL",
)
#: Those of this run.
SOME = CONSTANTS[:: effort(1, 2)]
Oracle = Callable[[str], list[tuple]]
PARAMS = {"flag": False, "nothing": None}


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


def rows_of(found: pa.Table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


@pytest.fixture(scope="module")
def in_duckdb() -> Iterator[Callable[[str], list[tuple]]]:
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table)

        def answer(text: str) -> list[tuple]:
            for name, value in PARAMS.items():
                text = text.replace(name, "NULL" if value is None else str(value))
            return rows_of(connection.sql(text).to_arrow_table())

        yield answer


def streamed(text: str, device: Device, **options) -> list[tuple]:
    query = compile_query(text, dict.fromkeys("ab", SCHEMA), time=TIME, params=PARAMS, **options)
    with JoinStream(query, dict.fromkeys("ab", SCHEMA), device) as stream:
        parts = []
        for k in range(len(A)):
            for name, table in TABLES.items():
                stream.push(name, table.slice(k, 1))
            parts.append(stream.poll())
        parts.append(stream.close())
    return rows_of(pa.concat_tables(parts))


def query(kind: str, on: str, where: str) -> tuple[str, str]:
    """The query, and the same for DuckDB, whose semi joins garble."""
    if kind in EXISTENCE:
        inner = f"{EXISTENCE[kind]} (SELECT 1 FROM b WHERE {on})"
        text = f"SELECT a.n AS i FROM a {kind} JOIN b ON {on} WHERE {where}"
        return text, f"SELECT a.n AS i FROM a WHERE {where} AND {inner}"
    text = f"SELECT a.n AS i, b.n AS j FROM a {kind} JOIN b ON {on} WHERE {where}"
    return text, text


def check(device: Device, in_duckdb: Oracle, text: str, oracle: str) -> None:
    """The rows of tables and of streams are DuckDB's."""
    found = rows_of(penstock.sql(text, TABLES, time=TIME, params=PARAMS, device=device))
    assert found == in_duckdb(oracle)
    assert streamed(text, device) == found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constant", SOME)
def test_where(device: Device, in_duckdb: Oracle, kind: str, constant: str) -> None:
    side = {"RIGHT": "b"}.get(kind, "a")
    where = constant.replace("SIDE", side)
    text, oracle = query(kind, WINDOW, where)
    if kind == "FULL OUTER" and constant == VARIABLE:
        # The columns of both sides may be NULL after the join.
        with pytest.raises(QueryError, match="WHERE tests a"):
            streamed(text, device)
        found = penstock.sql(text, TABLES, time=TIME, device=device)
        assert rows_of(found) == in_duckdb(oracle)
        return
    check(device, in_duckdb, text, oracle)


_SESSIONS = "a.x = b.x AND session_window(a.t, 5) = session_window(b.t, 5)"


@pytest.mark.parametrize(
    ("kind", "on", "where"),
    [
        pytest.param(kind, on, where, marks=() if number % 7 == 0 else pytest.mark.slow)
        for number, (kind, on, where) in enumerate(
            (kind, on, where)
            for where in ("flag", "SIDE.x > 3 AND 1 = 0", "nothing")
            for on in (WINDOW, f"a.x = b.x AND {WINDOW}", _SESSIONS)
            for kind in KINDS
        )
    ],
)
def test_where_on_workers(kind: str, on: str, where: str) -> None:
    text, _ = query(kind, on, where.replace("SIDE", {"RIGHT": "b"}.get(kind, "a")))

    def rank(workers: Workers) -> int:
        schemas = dict.fromkeys("ab", SCHEMA)
        with penstock.stream(text, schemas, time=TIME, params=PARAMS, workers=workers) as stream:
            for name, table in TABLES.items():
                stream.push(name, table)
            return stream.close().num_rows

    assert all_of(together(2, rank)) == [0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constant", ["FALSE", "a.x > nothing"])
def test_sessions(kind: str, constant: str) -> None:
    text, _ = query(kind, f"{_SESSIONS} AND {constant}", "TRUE")
    found = penstock.sql(text, TABLES, time=TIME, params=PARAMS)
    alone = {"LEFT": 5, "RIGHT": 5, "FULL OUTER": 10, "LEFT ANTI": 5}
    assert found.num_rows == alone.get(kind, 0)
    with penstock.stream(text, dict.fromkeys("ab", SCHEMA), time=TIME, params=PARAMS) as stream:
        for name, table in TABLES.items():
            stream.push(name, table)
        assert rows_of(stream.close()) == rows_of(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constant", SOME)
def test_on(device: Device, in_duckdb: Oracle, kind: str, constant: str) -> None:
    on = f"{WINDOW} AND {constant.replace('SIDE', 'b')}"
    text, oracle = query(kind, on, "TRUE")
    check(device, in_duckdb, text, oracle)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constant", ["FALSE", "NULL", "1 = 0", "flag", "a.x > b.x AND 1 = 0"])
@pytest.mark.parametrize("place", ["on", "where"])
def test_a_window_is_not_needed_where_nothing_matches(
    device: Device, in_duckdb: Oracle, kind: str, constant: str, place: str
) -> None:
    if place == "where" and kind in EXISTENCE:  # WHERE does not see the right side
        constant = constant.replace("b.x", "3")
    on, where = (constant, "TRUE") if place == "on" else ("a.x = b.x", constant)
    text, oracle = query(kind, on, where)
    check(device, in_duckdb, text, oracle)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["FALSE", "NULL", "x > 3 AND 1 = 0", "1 = 1", "x > 3"])
@pytest.mark.parametrize("filtered", ["a", "b"])
def test_where_of_a_subquery(
    device: Device, in_duckdb: Oracle, kind: str, where: str, filtered: str
) -> None:
    text, oracle = (
        one.replace(
            f"FROM {filtered}", f"FROM (SELECT * FROM {filtered} WHERE {where}) {filtered}"
        ).replace(f"JOIN {filtered}", f"JOIN (SELECT * FROM {filtered} WHERE {where}) {filtered}")
        for one in query(kind, WINDOW, "TRUE")
    )
    found = rows_of(penstock.sql(text, TABLES, time=TIME, device=device))
    assert found == in_duckdb(oracle)
    assert streamed(text, device) == found


@pytest.mark.parametrize("constant", SOME)
def test_comma_joins(device: Device, in_duckdb: Oracle, constant: str) -> None:
    where = f"{WINDOW} AND {constant.replace('SIDE', 'a')}"
    text = f"SELECT a.n AS i, b.n AS j FROM a, b WHERE {where}"
    found = rows_of(penstock.sql(text, TABLES, time=TIME, params=PARAMS, device=device))
    assert found == in_duckdb(text)
    assert streamed(text, device) == found


@pytest.mark.parametrize("constant", SOME)
@pytest.mark.parametrize("place", ["WHERE", "HAVING"])
@pytest.mark.parametrize("group", ["", "GROUP BY a.n", "GROUP BY a.n, b.n"])
def test_aggregates(
    device: Device, in_duckdb: Oracle, constant: str, place: str, group: str
) -> None:
    if place == "HAVING" and "SIDE" in constant:
        constant = constant.replace("SIDE.x", "count(*)")
    where, having = ("TRUE", "TRUE")
    if place == "WHERE":
        where = constant.replace("SIDE", "b")
    else:
        having = constant
    text = (
        f"SELECT count(*) AS c, sum(a.x - b.x) AS s, min(b.x) AS m FROM a JOIN b ON {WINDOW} "
        f"WHERE {where} {group} HAVING {having}"
    )
    found = rows_of(penstock.sql(text, TABLES, time=TIME, params=PARAMS, device=device))
    assert found == in_duckdb(text)


@pytest.mark.parametrize("constant", ["FALSE", "NULL", "1 = 1"])
def test_groups_of_streams(device: Device, in_duckdb: Oracle, constant: str) -> None:
    text = (
        f"SELECT a.t, count(*) AS c FROM a JOIN b ON {WINDOW} WHERE {constant} "
        "GROUP BY a.t HAVING count(*) > 0"
    )
    assert streamed(text, device) == in_duckdb(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["on", "where"])
def test_rows_windows(device: Device, in_duckdb: Oracle, kind: str, place: str) -> None:
    on, where = ("a.x = b.x AND 1 = 0", "TRUE") if place == "on" else ("a.x = b.x", "1 = 0")
    text, oracle = query(kind, on, where)
    text, oracle = (
        one.replace("FROM a", "FROM (SELECT * FROM a WHERE t IS NOT NULL) a").replace(
            "JOIN b", "JOIN (SELECT * FROM b WHERE t IS NOT NULL) b"
        )
        for one in (text, oracle)
    )
    # Nothing matches, whatever the window is.
    found = rows_of(penstock.sql(text, TABLES, time=TIME, rows=3, device=device))
    assert found == in_duckdb(oracle)
    assert streamed(text, device, rows=3) == found
