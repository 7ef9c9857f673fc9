"""A refusal gives the reason that holds, with the query's own words, whoever would have run it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import PenstockError
from tests.kit.effort import effort
from tests.penstock.test_query_errors import CLAUSES, CONDITIONS

#: Names that a split makes up.
INNER = re.compile(r"\bpart_\d|\bc_?\d+\b|\bcomputed_|\bps_|\bone_time\b|right\.time")

US = pa.timestamp("us")
A = pa.table(
    {
        "id": [1, 2],
        "k": [1, 2],
        "t": pa.array([10_000_000, 90_000_000], US),
        "s": ["x", "y"],
        "d": pa.array([Decimal(1), None], pa.decimal256(60, 2)),
    }
)
B = pa.table({"id": [8, 4], "k": [2, 1], "t": A["t"], "s": ["X", "y"]})
TABLES = {"a": A, "b": B}
ON = "b.t BETWEEN a.t - INTERVAL 5 SECONDS AND a.t + INTERVAL 5 SECONDS"
JOIN = f"FROM a JOIN b ON {ON}"


def on_tables(text: str, tables: dict[str, pa.Table], **options: Any) -> None:
    penstock.sql(text, tables, **options)


def on_streams(text: str, tables: dict[str, pa.Table], **options: Any) -> None:
    schemas = {name: table.schema for name, table in tables.items()}
    with penstock.stream(text, schemas, **options) as running:
        for name, table in tables.items():
            running.push(name, table)


def refusal(run: Callable[..., None], text: str, tables=TABLES, **options: Any) -> str:
    """The message of an error; "" if there is none."""
    try:
        run(text, tables, **options)
    except PenstockError as error:
        return str(error)
    return ""


#: Query, words in the message, words not in it.
TOLD = [
    (f"SELECT foo(a.id) AS f {JOIN} LIMIT 1", "function foo is not supported", "LIMIT"),
    (f"SELECT a.wrong {JOIN} ORDER BY a.id", "unknown column a.wrong", "ORDER BY"),
    (f"SELECT pmod(a.s, b.k) AS m {JOIN} ORDER BY m", "needs numbers, not string", "ORDER"),
    (f"SELECT lower(a.s) AS s, a.d {JOIN}", "column a.d is a decimal256(60, 2)", "lower"),
    ("SELECT a.d FROM a JOIN b ON a.k = b.k", "column d is a decimal256(60, 2)", "window"),
    (
        "SELECT x.id FROM sensors x JOIN b ON x.k = b.k",
        "unknown table sensors; the tables given are: a, b",
        "window",
    ),
    (
        f"SELECT a.id {JOIN} LEFT JOIN b c ON levenshtein(b.s, c.s) < 2 AND c.t > b.t",
        "function levenshtein is not supported (at line 1, column 113: LEVENSHTEIN(b.s, c.s))",
        "equality of both sides",
    ),
    (
        f"SELECT frob(b.s) AS f {JOIN} JOIN b c ON c.t = b.t",
        "function frob is not supported (at line 1, column 8: FROB(b.s))",
        "one table or a join of two",
    ),
    (f"SELECT a.id {JOIN} AND a.s < b.k", "`<` of string and integer has no meaning", "window"),
    ("SELECT a.id FROM a JOIN b ON a.s < b.k", "`<` of string and integer", "window"),
    ("SELECT b.id FROM a" + " JOIN b" * 9, "the query has 9 joins, more than 8", "not SQL"),
]


@pytest.mark.parametrize(("text", "words", "others"), TOLD)
def test_the_reason_that_holds_is_told(text: str, words: str, others: str) -> None:
    message = refusal(on_tables, text)
    assert words in message
    assert others not in message
    assert not INNER.search(message)


#: As :data:`TOLD`, on streams.
TOLD_OF_STREAMS = [
    (f"SELECT a.id {JOIN} LIMIT 3", "LIMIT needs all rows, which a stream never has", "yet"),
    ("SELECT a.id FROM a JOIN b ON a.k = b.k", "the join has no window", "none of the query"),
    (
        f"SELECT lower(a.s) AS s, count(*) AS n FROM a LEFT JOIN b ON {ON} GROUP BY lower(a.s)",
        "a stream never knows that these groups are complete",
        "aggregates over a LEFT",
    ),
    ("SELECT id FROM a QUALIFY row_number() OVER (ORDER BY t) = 1", "QUALIFY is not", "is a join"),
    (f"SELECT frob(b.s) AS f {JOIN}", "function frob is not supported", "part"),
    (
        "SELECT id, lag(t) OVER (PARTITION BY k ORDER BY t) AS before FROM a",
        "a window function",
        "neither a key",
    ),
    (
        f"SELECT session_window(a.t, '9 seconds').start AS w, count(*) AS n {JOIN} "
        "GROUP BY session_window(a.t, '9 seconds')",
        "session_window in GROUP BY is of one table",
        "Penstock's",
    ),
]


@pytest.mark.parametrize(("text", "words", "others"), TOLD_OF_STREAMS)
def test_the_reason_that_holds_is_told_of_streams(text: str, words: str, others: str) -> None:
    message = refusal(on_streams, text)
    assert words in message
    assert others not in message
    assert not INNER.search(message)


def test_the_reason_that_holds_is_told_where_times_have_units() -> None:
    schema = pa.schema({"t": pa.int64(), "x": pa.int64()})
    join = "FROM a JOIN b ON b.t BETWEEN a.t AND a.t + 5"
    text = f"SELECT b.x - 0 AS y, count(*) AS n {join} GROUP BY b.x"
    with pytest.raises(PenstockError, match="a stream never knows that these groups are complete"):
        penstock.stream(text, {"a": schema, "b": schema}, time={"a": "T:ms", "b": "t:ms"})


C = pa.table({"z": [1]})
#: What is put around a query, so that the whole is no longer one join.
AROUND: dict[str, Callable[[str], str]] = {
    "whole": lambda text: text,
    "ordered": lambda text: f"SELECT * FROM ({text}) q ORDER BY 1",
    "computed": lambda text: f"SELECT lower('X') AS low, q.* FROM ({text}) q",
    "joined": lambda text: f"SELECT q.*, d.y AS dy FROM ({text}) q JOIN b d ON d.y = q.x",
}
REFUSED = [text for text, _ in CLAUSES]
REFUSED += [
    f"SELECT a.x FROM a JOIN b ON abs(a.t - b.t) < 5 AND ({condition})"
    for condition, _ in CONDITIONS
]
REFUSED += [
    f"SELECT a.x, ({condition}) AS y FROM a JOIN b ON abs(a.t - b.t) < 5"
    for condition, _ in CONDITIONS
]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("run", [on_tables, on_streams])
def test_no_message_has_made_names(around: str, run: Callable[..., None]) -> None:
    """Nor does a foreign exception come out, of any query that one join refuses."""
    one = {"id": [1], "t": [1], "s": ["x"]}
    tables = {
        "a": pa.table({**one, "x": pa.array([2], pa.int32())}),
        "b": pa.table({**one, "y": pa.array([3], pa.int32())}),
        "c": C,
    }
    time = {"a": "t", "b": "t"}
    some = REFUSED[:: effort(1, 9)]
    told = [refusal(run, AROUND[around](text), tables, time=time) for text in some]
    assert sum(map(bool, told)) > len(told) / 3
    assert [message for message in told if INNER.search(message)] == []


def test_names_that_a_user_has_are_not_made() -> None:
    own = {name: pa.array([1, 2]) for name in ("c0", "c1", "computed_0")}
    tables = {"part_1": A.drop_columns(["d"]), "b": B}
    for name, values in own.items():
        tables["part_1"] = tables["part_1"].append_column(name, values)
    found = penstock.sql(
        "SELECT a.c0, a.c1, a.computed_0, lower(b.s) AS low, b.id FROM part_1 a JOIN b "
        f"ON lower(a.s) = lower(b.s) AND {ON} ORDER BY a.c0",
        tables,
    )
    assert found.to_pylist() == [
        {"c0": 1, "c1": 1, "computed_0": 1, "low": "x", "id": 8},
        {"c0": 2, "c1": 2, "computed_0": 2, "low": "y", "id": 4},
    ]


def test_tables_given_by_their_aliases_are_those_in_parts_too() -> None:
    text = "SELECT a.id, lower(b.s) AS s FROM sensors a JOIN others b ON a.k = b.k ORDER BY a.id"
    assert penstock.sql(text, TABLES)["s"].to_pylist() == ["y", "x"]


def test_a_column_named_as_the_alias_of_a_semi_join() -> None:
    near = ON.replace("b.", "s.")
    a = A.drop_columns(["s", "d"])
    text = f"SELECT count(*) AS n FROM a LEFT {{}} JOIN b s ON s.k = a.k AND {near}"
    for kind, count in (("SEMI", 0), ("ANTI", 2)):
        found = penstock.sql(text.format(kind), {"a": a, "b": B})
        assert found["n"].to_pylist() == [count]


def test_columns_that_no_engine_reads_may_lie_in_tables() -> None:
    found = penstock.sql("SELECT a.id FROM a JOIN b ON a.k = b.k ORDER BY a.id", TABLES)
    assert found["id"].to_pylist() == [1, 2]
    found = penstock.sql(f"SELECT a.id FROM a JOIN b ON upper(a.s) = b.s AND {ON}", TABLES)
    assert found["id"].to_pylist() == [1]


def test_a_subquery_of_a_part_needs_no_alias() -> None:
    text = (
        "WITH last AS (SELECT * FROM (SELECT id, k, t, row_number() OVER (ORDER BY t DESC) AS rn "
        "FROM a){alias} WHERE rn = 1) SELECT a.id, b.id AS j "
        f"FROM last a JOIN b ON b.k <> a.k AND {ON}"
    )
    joined, expected = (penstock.sql(text.format(alias=one), TABLES) for one in ("", " x"))
    assert joined.num_rows
    assert joined.equals(expected)


def test_the_time_of_a_part_may_be_a_window() -> None:
    """The join has an equality: it needs no time of its own."""
    text = (
        "WITH s AS (SELECT k, session_window(t, '1 minute') AS w FROM a "
        "GROUP BY k, session_window(t, '1 minute')) SELECT s.k, b.id "
        "FROM s JOIN b ON b.k = 3 - s.k AND b.t >= s.w.start AND b.t < s.w.end"
    )
    joined, expected = (penstock.sql(text, TABLES, time=one) for one in ({"s": "w"}, None))
    assert joined.num_rows
    assert joined.sort_by("id").equals(expected.sort_by("id"))
    wrong = {"s": "k", "b": "s"}
    assert "time column b.s is a string" in refusal(on_tables, text, time=wrong)


def test_a_time_may_be_named_by_the_table_inside_a_subquery() -> None:
    """Another time of the table, which no window meets, is not taken in its place."""
    far = A.append_column("far", pa.array([0] * A.num_rows, A["t"].type))
    for value, alias in (("k1", "x"), ("upper(s1)", "x"), ("k1 + 1", "")):
        text = (
            f"SELECT {value} AS v, b.id FROM (SELECT s AS s1, k AS k1, far, t FROM a) {alias} "
            "JOIN b ON s1 <= b.s"
        )
        times = [{one: "t", "b": "t"} for one in ("a", alias or "a")]
        rows = [
            penstock.sql(text, {"a": far, "b": B}, time=one, within=timedelta(seconds=5))
            for one in times
        ]
        assert rows[0].num_rows
        assert rows[0].equals(rows[1])
