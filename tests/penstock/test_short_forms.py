"""What SQL lets one write shortly: rows as DuckDB has them, and what is said of the rest."""

from __future__ import annotations

import datetime
from random import Random

import duckdb
import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError
from penstock.query.compiler import compile_select

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("s", pa.string()),
        ("x", pa.int64()),
        pa.field("t", pa.int64(), nullable=False),
        ("d", pa.date32()),
        ("w", pa.timestamp("us")),
        pa.field("n", pa.int64(), nullable=False),
    ]
)
DAY = datetime.date(2024, 1, 1)


def rows(seed: int, count: int = 60) -> pa.Table:
    """Few values of each column, NULL among them where it may be."""
    rng = Random(seed)
    maybe = lambda value: None if rng.random() < 0.15 else value  # noqa: E731
    columns = [
        [maybe(rng.randint(0, 4)) for _ in range(count)],
        [maybe(rng.choice("ab")) for _ in range(count)],
        [maybe(rng.randint(-9, 9)) for _ in range(count)],
        [rng.randint(0, 30) for _ in range(count)],
        [maybe(DAY + datetime.timedelta(rng.randint(0, 6))) for _ in range(count)],
        [maybe(datetime.datetime(2024, 1, 1, rng.randint(0, 23))) for _ in range(count)],
        [rng.randint(0, 40) for _ in range(count)],
    ]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


TABLES = {"a": rows(1), "b": rows(2), "c": rows(3).select(["k", "n", "t", "x"])}
NEAR = "b.t BETWEEN a.t - 9 AND a.t + 9"


def answer(query: str, **how) -> pa.Table:
    return penstock.sql(query, TABLES, **{"time": {"a": "t", "b": "t"}, **how})


def agree(query: str, theirs: str | None = None, **how) -> pa.Table:
    """Compare with DuckDB; returns the rows."""
    found = answer(query, **how)
    with duckdb.connect() as base:
        for name, table in TABLES.items():
            base.register(name, table)
        wanted = base.sql(theirs or query).to_arrow_table()
    ours, others = (
        sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))
        for table in (found, wanted)
    )
    assert found.num_rows > 0
    assert ours == others
    return found


@pytest.mark.parametrize("kind", ["", "LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize("names", ["k", "k, s"])
def test_using(kind: str, names: str) -> None:
    """The column of both is there once, first, and has a value where either side has one."""
    bound = "abs(a.t - b.t) < 10"
    text = f"SELECT * FROM a {kind} JOIN b USING ({names})"
    one = names.split(", ")
    on = " AND ".join(f"a.{name} = b.{name}" for name in one)
    merged = ", ".join(f"coalesce(a.{name}, b.{name})" for name in one)
    rest = ", ".join(f"{side}.{own}" for side in "ab" for own in SCHEMA.names if own not in one)
    found = agree(
        text, f"SELECT {merged}, {rest} FROM a {kind} JOIN b ON {on} AND {bound}", within=9
    )
    assert found.column_names[: len(one) + 1] == [*one, "a_s" if names == "k" else "a_x"]


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_a_column_of_using_needs_no_table(kind: str) -> None:
    on = f"a.k = b.k AND {NEAR}"
    agree(
        f"SELECT coalesce(k, 7) AS k1, a.n AS i, b.n AS j FROM a {kind} JOIN b USING (k)",
        f"SELECT coalesce(a.k, b.k, 7), a.n, b.n FROM a {kind} JOIN b ON {on}",
        within=9,
    )
    assert answer(f"SELECT * FROM a {kind} JOIN b USING (K)", within=9).column_names[0] == "k"
    agree(
        f"SELECT a.k AS ak, b.k AS bk, a.n AS i FROM a {kind} JOIN b USING (K)",
        f"SELECT a.k, b.k, a.n FROM a {kind} JOIN b ON {on}",
        within=9,
    )


def test_natural() -> None:
    on = " AND ".join(f"a.{name} = c.{name}" for name in ("k", "x"))
    agree(
        "SELECT k, x, i, j FROM (SELECT k, x, n AS i, t AS u FROM a) a NATURAL JOIN "
        "(SELECT k, x, n AS j, t AS v FROM c) c",
        f"SELECT a.k, a.x, a.n, c.n FROM a JOIN c ON {on} AND abs(a.t - c.t) < 10",
        time={"a": "u", "c": "v"},
        within=9,
    )


def test_semi_join_using() -> None:
    agree(
        "SELECT k, a.n FROM a LEFT SEMI JOIN b USING (k)",
        f"SELECT k, n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND {NEAR})",
        within=9,
    )


@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS"])
@pytest.mark.parametrize("others", ["", "x > -5 AND ", "(a.x < 5 OR x IS NULL) AND "])
def test_exists(word: str, others: str) -> None:
    inner = f"SELECT 1 FROM b WHERE a.k = b.k AND b.x < a.x AND {NEAR} AND b.s = 'a'"
    agree(f"SELECT a.n AS i, s FROM a WHERE {others}{word} ({inner})")
    agree(f"SELECT a.n AS i, s FROM a WHERE NOT ({word} ({inner}))")


def test_in_a_select() -> None:
    agree(f"SELECT n, t FROM a WHERE k IN (SELECT k FROM b WHERE {NEAR}) AND x > 0")
    agree(f"SELECT n, t FROM a WHERE k + 1 IN (SELECT b.k FROM b WHERE x > 0 AND {NEAR})")
    # Both are never NULL, so it is the same as NOT EXISTS.
    agree(f"SELECT n, t FROM a WHERE n NOT IN (SELECT n FROM b WHERE {NEAR})")


def test_with() -> None:
    agree(
        f"WITH p AS (SELECT * FROM a WHERE x > 0), q AS (SELECT k, t, n FROM p WHERE k < 3) "
        f"SELECT a.n AS i, b.n AS j FROM q a JOIN b ON a.k = b.k AND {NEAR}"
    )
    agree(
        f"WITH P AS (WITH a AS (SELECT * FROM b WHERE s = 'a') SELECT k, t, n AS j FROM a) "
        f"SELECT a.n AS i, b.j FROM a LEFT JOIN p b ON a.k = b.k AND {NEAR}",
    )
    agree(
        f"WITH b AS (SELECT * FROM c) SELECT a.n FROM a LEFT ANTI JOIN b ON a.k = b.k AND {NEAR}",
        f"SELECT a.n FROM a ANTI JOIN c b ON a.k = b.k AND {NEAR}",
    )


def test_two_columns_of_one_name() -> None:
    found = agree(f"SELECT a.k, b.k, a.n, b.x AS y FROM a JOIN b ON a.x = b.x AND {NEAR}")
    assert found.column_names == ["a_k", "b_k", "n", "y"]
    with pytest.raises(QueryError, match="two columns named k; rename one with AS"):
        answer(f"SELECT a.n AS k, b.x AS k FROM a JOIN b ON a.x = b.x AND {NEAR}")


def test_star_except() -> None:
    on = f"a.x = b.x AND {NEAR}"
    found = agree(
        f"SELECT * EXCEPT (s, b.k, d) FROM a JOIN b ON {on}",
        f"SELECT a.k, a.x, a.t, a.w, a.n, b.x, b.t, b.w, b.n FROM a JOIN b ON {on}",
    )
    assert found.column_names[0] == "k"
    agree(
        f"SELECT a.* EXCEPT (s, d, w), b.n AS j FROM a JOIN b ON {on}",
        f"SELECT a.k, a.x, a.t, a.n, b.n FROM a JOIN b ON {on}",
    )
    with pytest.raises(QueryError, match=r"unknown column.* nn; did you mean n"):
        answer(f"SELECT * EXCEPT (nn) FROM a JOIN b ON {on}")


@pytest.mark.parametrize("column", ["k", "s", "d"])
def test_null_is_the_same_as_null(column: str) -> None:
    theirs = f"a.{column} IS NOT DISTINCT FROM b.{column}"
    for ours in (theirs, f"a.{column} <=> b.{column}"):
        agree(
            f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON {ours} AND {NEAR}",
            f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON {theirs} AND {NEAR}",
        )
    agree(
        f"SELECT a.n AS i, b.n AS j, a.{column} IS DISTINCT FROM b.{column} AS other "
        f"FROM a JOIN b ON {NEAR} AND a.x = b.x"
    )


@pytest.mark.parametrize(
    "condition",
    [
        "a.d > '2024-01-03'",
        "'2024-01-03' <> b.d",
        "a.d IS DISTINCT FROM '2024-01-03'",
        "a.d BETWEEN '2024-01-02' AND '2024-01-05'",
        "a.d IN ('2024-01-02', '2024-01-05')",
        "b.w <= '2024-01-01 11:00:00'",
        "b.w BETWEEN '2024-01-01' AND '2024-01-01 09:30:00'",
    ],
)
def test_times_beside_texts(condition: str) -> None:
    agree(f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND {NEAR} AND {condition}")


def test_named_parameters() -> None:
    query = f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON abs(a.x - b.x) < {{}} AND {NEAR}"
    agree(query.format(":most"), query.format("3"), params={"most": 3})
    with pytest.raises(QueryError, match="parameter :most has no value; give params="):
        answer(query.format(":most"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT n FROM a WHERE k NOT IN (SELECT k FROM b)", "write NOT EXISTS"),
        ("SELECT n FROM a WHERE n NOT IN (SELECT n + 1 FROM b)", "write NOT EXISTS"),
        ("SELECT n FROM a WHERE k IN (SELECT k, n FROM b)", "a SELECT of one column"),
        ("SELECT n FROM a WHERE k IN (SELECT k FROM b LIMIT 3)", "LIMIT is not supported in EXI"),
        ("SELECT n FROM a WHERE EXISTS (SELECT max(k) FROM b)", "not of their aggregates"),
        (
            "SELECT n FROM a WHERE k IN (SELECT k FROM b) AND x IN (SELECT x FROM c)",
            "one EXISTS or IN .* beside one table can be joined",
        ),
        (
            "SELECT a.n FROM a JOIN b ON a.k = b.k WHERE EXISTS (SELECT 1 FROM c)",
            "one EXISTS or IN .* beside one table can be joined",
        ),
        (
            "SELECT n FROM a WHERE k IN (SELECT k FROM b) OR x > 3",
            "a query over one table",
        ),
        (
            "WITH RECURSIVE p AS (SELECT * FROM p) SELECT * FROM p",
            "WITH RECURSIVE is not",
        ),
        ("SELECT * FROM a JOIN b USING (kk)", "unknown column kk in a; did you mean k"),
        ("SELECT * FROM a JOIN c USING (s)", "unknown column s in c"),
        (
            "SELECT soundex(a.x) AS y FROM a JOIN b ON a.k = b.k",
            "function soundex is not supported",
        ),
        ("SELECT a.s / 2 AS y FROM a JOIN b ON a.k = b.k", "/ needs numbers, not string"),
        (
            "SELECT a.s DIV 2 AS y FROM a JOIN b ON a.k = b.k",
            "DIV needs integers or decimals, not string",
        ),
        (
            "SELECT unix_timestamp(a.s) AS y FROM a JOIN b ON a.k = b.k",
            "a timestamp is needed, not string",
        ),
        ("SELECT a.s || 'x' AS y FROM a JOIN b ON a.k = b.k", r"\|\| is not supported"),
        ("SELECT a.n FROM a JOIN b ON a.d > '2024-13-01'", "is not an ISO date or time"),
    ],
)
def test_what_is_said(query: str, message: str) -> None:
    schemas = {name: table.schema for name, table in TABLES.items()}
    with pytest.raises(QueryError, match=message):
        compile_select(query, schemas, time={"a": "t", "b": "t"}, within=3)
