"""What is not supported is named, with its place in the text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import QueryError
from penstock.plan.plan import plan
from penstock.query import compile_query

SCHEMAS = {
    "a": pa.schema([("id", pa.int64()), ("t", pa.int64()), ("x", pa.int32()), ("s", pa.string())]),
    "b": pa.schema([("id", pa.int64()), ("t", pa.int64()), ("y", pa.int32()), ("s", pa.string())]),
    "c": pa.schema([("z", pa.int64())]),
}
ON = "abs(a.t - b.t) < 5"
JOIN = f"FROM a JOIN b ON {ON}"


def error(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        compile_query(text, SCHEMAS, time={"a": "t", "b": "t"})
    message = str(caught.value)
    assert "\n" not in message
    return message


CLAUSES = [
    (f"SELECT a.x FROM a RIGHT SEMI JOIN b ON {ON}", "RIGHT SEMI JOIN is not supported; use"),
    (f"SELECT a.x FROM a NATURAL JOIN b ON {ON}", "NATURAL JOIN takes no ON"),
    ("SELECT a.x FROM a JOIN b USING (y)", "unknown column y in a"),
    (
        "SELECT q.x FROM (SELECT x FROM a GROUP BY x) q JOIN b ON 1 = 1",
        "GROUP BY is not supported in a subquery in FROM",
    ),
    (f"SELECT a.x {JOIN} GROUP BY ROLLUP (a.x)", "ROLLUP is not supported"),
    (f"SELECT a.x {JOIN} ORDER BY a.x", "ORDER BY is not supported in a join query yet: leave"),
    (f"SELECT a.x {JOIN} LIMIT 5", "LIMIT is not supported in a join query yet"),
    (f"SELECT a.x {JOIN} OFFSET 5", "OFFSET is not supported in a join query yet"),
    (
        "SELECT q.x FROM (SELECT DISTINCT x FROM a) q JOIN b ON 1 = 1",
        "DISTINCT is not supported in a subquery in FROM",
    ),
    (
        f"WITH q (u) AS (SELECT * FROM a) SELECT a.x {JOIN}",
        "names behind an alias need a SELECT that lists its columns",
    ),
    (
        "SELECT count(*) AS n FROM a LIMIT 5",
        "LIMIT is not supported in a query over one table yet: leave it out, and do that with the",
    ),
    (
        "SELECT count(*) AS n FROM a TABLESAMPLE (10 PERCENT)",
        "TABLESAMPLE is not supported: do that before",
    ),
    (f"SELECT a.x {JOIN} SORT BY a.x", "SORT BY is not supported: leave it out"),
    (
        f"SELECT a.x FROM a TABLESAMPLE (10 PERCENT) JOIN b ON {ON}",
        "TABLESAMPLE is not supported: do that before, and give its result as the",
    ),
    (f"SELECT a.x {JOIN} LATERAL VIEW explode(a.x) q", "LATERAL VIEW is not supported"),
    (f"SELECT a.x {JOIN} UNION ALL SELECT b.y {JOIN}", "a SELECT is needed, not UNION"),
    (f"SELECT a.x {JOIN} JOIN c ON c.z = a.x", "one table or a join of two is needed; the query"),
    ("SELECT x FROM a", "a query over one table gives groups, and this one has none: add GROUP BY"),
    ("SELECT 1", "one table or a join of two is needed; the query has 0"),
    ("DELETE FROM a", "a SELECT is needed, not DELETE"),
    (f"SELECT q.x FROM (SELECT a.x {JOIN}) q JOIN b ON 1 = 1", "a subquery in FROM filters and"),
    (f"SELECT q.x FROM (SELECT x FROM a LIMIT 3) q JOIN b ON {ON}", "LIMIT is not supported"),
    ("SELECT 1 FROM (SELECT x FROM a) JOIN b ON 1 = 1", "a subquery in FROM needs an alias"),
    (
        "SELECT q.n FROM (SELECT count(*) n FROM a) q JOIN b ON 1 = 1",
        "aggregates are not supported in a subquery in FROM",
    ),
    (f"SELECT count(*) OVER () {JOIN}", "WINDOW is not supported"),
    (f"SELECT a.t AS x, b.y AS x {JOIN}", "the output has two columns named x; rename one with AS"),
    (f"SELECT * EXCEPT (z) {JOIN}", "unknown column or parameter z"),
    (f"SELECT * REPLACE (1 AS x) {JOIN}", "* takes no REPLACE or RENAME; list the columns"),
    ("SELECT a.x FROM a JOIN a ON 1 = 1", "both inputs are named a; give each an alias"),
    ("SELECT d.x FROM d JOIN b ON 1 = 1", "unknown table d; the tables given are: a, b, c"),
]


@pytest.mark.parametrize(("text", "message"), CLAUSES)
def test_clauses(text: str, message: str) -> None:
    found = error(text)
    assert message in found
    assert "(at line 1, column " in found or "(at: " in found


CONDITIONS = [
    ("a.s / 2 > b.y", "/ needs numbers, not string"),
    ("sqrt(a.s) > b.y", "sqrt needs numbers, not string"),
    ("soundex(a.s) = b.s", "function soundex is not supported"),
    ("frobnicate(a.x) > b.y", "function frobnicate is not supported"),
    ("a.s LIKE '%x'", "LIKE takes a constant prefix such as 'abc%'"),
    ("a.s LIKE 'a_c'", "LIKE takes a constant prefix"),
    ("a.s LIKE b.s", "LIKE takes a constant prefix"),
    ("a.x IN (SELECT y FROM b)", "IN takes a subquery in WHERE beside AND only"),
    ("a.x = (SELECT max(y) FROM b)", "SUBQUERY is not supported"),
    ("EXISTS (SELECT 1 FROM c)", "EXISTS is not supported"),
    ("(a.x = 1) < (b.y = 1)", "`<` does not order conditions; they have equality"),
    ("a.s = b.y", "`=` of string and integer has no meaning; compare text with text"),
    ("a.s + 1 > b.y", "the sum needs numbers, not string"),
    ("a.x AND b.y > 1", "AND needs conditions, not integer"),
    ("NOT a.x", "NOT needs conditions, not integer"),
    ("a.x << b.y > 1", "limit it to 0..63, for example with `& 63`"),
    ("a.x << 64 > b.y", "the shift amount may be 64 to 64"),
    ("a.xx = b.y", "unknown column xx in a; did you mean x?"),
    ("q.x = b.y", "unknown table q; the query has a, b"),
    ("a.x = diff", "unknown column or parameter diff; there are id, t, x"),
    ("id = b.y", "column id is ambiguous; write a.id or b.id"),
    ("a.x IS TRUE", "a condition is needed, not integer"),
    ("row_number() OVER (ORDER BY a.x) > b.y", "WINDOW is not supported"),
    ("a.x = b.y + INTERVAL 1 MONTH", "a date or timestamp is needed, not integer"),
    ("a.x = INTERVAL 'x' DAY", "INTERVAL 'x' is not a number"),
    ("CAST(a.x AS INTERVAL) = b.y", "CAST to INTERVAL is not supported"),
    ("CAST(a.s AS INT) = b.y", "CAST from string to integer is not supported"),
    ("b.y = CAST('tomorrow' AS DATE)", "'tomorrow' is not an ISO date or time"),
    ("a.x = CAST('1' AS INT)", "CAST of text to integer is not supported"),
    ("least(a.x) > b.y", "least needs at least two arguments"),
]


@pytest.mark.parametrize(("condition", "message"), CONDITIONS)
def test_conditions(condition: str, message: str) -> None:
    found = error(f"SELECT a.x {JOIN} AND ({condition})")
    assert message in found
    assert found.endswith(")")
    assert "(at line 1, column " in found or "(at: " in found


def test_the_place_is_where_the_construct_starts() -> None:
    text = "SELECT a.x\nFROM a JOIN b\n  ON abs(a.t - b.t) < 5\n  AND a.wrong = b.y"
    assert error(text).endswith("(at line 4, column 7: a.wrong)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT a.x FROM", "this is not SQL: "),
        ("SELECT 'a", "this is not SQL: "),
        ("SELECT date_trunc() FROM a, b", "this is not SQL: "),
        ("", "one SELECT statement is needed, not 0"),
        ("SELECT 1; SELECT 2", "one SELECT statement is needed, not 2"),
        ("SELECT 1 FROM a [ROWS x], b", "this is not SQL: ROWS needs a number of rows"),
        ("SELECT 1 FROM a [ROWS 5, b", "this is not SQL: ] is missing after [ROWS n"),
    ],
)
def test_text_that_is_not_one_statement(text: str, message: str) -> None:
    assert error(text).startswith(message)


def test_a_condition_is_needed() -> None:
    assert "a condition is needed, not integer" in error("SELECT a.x FROM a JOIN b ON a.x")


def test_a_two_sided_cast_that_may_overflow() -> None:
    text = f"SELECT a.x {JOIN} AND CAST(a.x + b.y AS TINYINT) = 3"
    query = compile_query(text, SCHEMAS, time={"a": "t", "b": "t"})
    named = r"`cast\(a\.x \+ b\.y as integer\)` casts a value .* may round or overflow"
    with pytest.raises(QueryError, match=named):
        plan(query).evaluations  # noqa: B018
