"""Queries of many terms, values and levels run, or are refused in a sentence."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError
from penstock.expr.node import walk
from penstock.plan.forms import join_form
from penstock.query import compile_query
from penstock.query.parse import MOST_CHARACTERS, MOST_TOKENS
from penstock.stack import FRAMES, run_deep

ROWS = 30
_RNG = np.random.default_rng(13)


def _table() -> pa.Table:
    columns = {k: _RNG.integers(0, 300, ROWS) for k in "xy"}
    mask = _RNG.random(ROWS) < 0.1
    return pa.table(
        {
            "id": np.arange(ROWS),
            "t": np.arange(ROWS),
            **{k: pa.array(v, mask=mask if k == "y" else None) for k, v in columns.items()},
        }
    )


A, B = _table(), _table()
LEFT, RIGHT = A.to_pylist(), B.to_pylist()
FROM = "FROM a JOIN b ON b.t BETWEEN a.t - 100 AND a.t + 100"


def joined(condition: str) -> list[tuple[int, int]]:
    found = penstock.sql(
        f"SELECT a.id AS i, b.id AS j {FROM} AND {condition}",
        {"a": A, "b": B},
        time={"a": "t", "b": "t"},
    )
    return sorted(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True))


def pairs_where(test: Callable[[dict, dict], bool | None]) -> list[tuple[int, int]]:
    return [(a["id"], b["id"]) for a in LEFT for b in RIGHT if test(a, b)]


def nested(form: str, levels: int, value: str) -> str:
    for level in range(levels):
        value = form.format(value, k=level)
    return value


THREES = {k * 3 for k in range(2000)}


@pytest.mark.parametrize(
    ("condition", "test"),
    [
        pytest.param(
            " OR ".join(f"a.x - b.x = {k * 3}" for k in range(1000)),
            lambda a, b: a["x"] - b["x"] in THREES,
            id="or of 1000",
        ),
        pytest.param(
            " AND ".join(f"a.x - b.y <> {k * 3}" for k in range(2000)),
            lambda a, b: b["y"] is not None and a["x"] - b["y"] not in THREES,
            id="and of 2000",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "(" * 60 + "a.x < b.x" + ")" * 60, lambda a, b: a["x"] < b["x"], id="parentheses"
        ),
        pytest.param(
            "(" * 600 + "a.x < b.x" + ")" * 600, lambda a, b: a["x"] < b["x"], id="600 parentheses"
        ),
        pytest.param("NOT " * 601 + "a.x < b.x", lambda a, b: a["x"] >= b["x"], id="not"),
        pytest.param(
            nested("CASE WHEN b.x > {k} THEN {} ELSE {k} END", 60, "a.x") + " < 50",
            lambda a, b: (a["x"] if b["x"] > 59 else 59) < 50,
            id="case in value",
        ),
        pytest.param(
            nested("CASE WHEN {} > {k} THEN b.x ELSE {k} END", 60, "a.x") + " > 59",
            lambda a, b: _nested_condition(a["x"], b["x"]) > 59,
            id="case in condition",
        ),
        pytest.param(
            "greatest("
            + ", ".join(f"a.x - {k}" if k % 2 else f"b.x - {k}" for k in range(64))
            + ") > 200",
            lambda a, b: max(a["x"] - 1, b["x"]) > 200,
            id="greatest of 64",
        ),
        pytest.param(
            " + ".join(["a.x"] * 300 + ["b.x"] * 300) + " < 90000",
            lambda a, b: 300 * (a["x"] + b["x"]) < 90000,
            id="sum of 600",
        ),
    ],
)
def test_long_conditions(condition: str, test: Callable) -> None:
    found = pairs_where(test)
    assert 0 < len(found) < ROWS * ROWS
    assert joined(f"({condition})") == found


def _nested_condition(a: int, b: int) -> int:
    value = a
    for k in range(60):
        value = b if value > k else k
    return value


# -- IN -------------------------------------------------------------------------------------------

VALUES = ", ".join(str(k * 3) for k in range(500))
MANY_VALUES = ", ".join(str(k * 3) for k in range(50_000))


@pytest.mark.parametrize(
    ("condition", "test"),
    [
        pytest.param(
            f"a.x IN ({MANY_VALUES})", lambda a, b: a["x"] % 3 == 0, marks=pytest.mark.slow
        ),
        (f"a.x NOT IN ({VALUES})", lambda a, b: a["x"] % 3 != 0),
        (f"b.y IN ({VALUES})", lambda a, b: b["y"] is not None and b["y"] % 3 == 0),
        (f"NOT b.y IN ({VALUES})", lambda a, b: b["y"] is not None and b["y"] % 3 != 0),
        (f"(b.y IN ({VALUES})) IS NULL", lambda a, b: b["y"] is None),
        ("a.x IN (3, 6, NULL)", lambda a, b: a["x"] in (3, 6)),
        ("a.x NOT IN (3, 6, NULL)", lambda a, b: False),
        (f"a.x - b.x IN ({VALUES})", lambda a, b: a["x"] - b["x"] >= 0 == (a["x"] - b["x"]) % 3),
        (
            f"a.x - b.y NOT IN ({VALUES})",
            lambda a, b: b["y"] is not None and a["x"] - b["y"] not in THREES,
        ),
        ("a.x - b.x IN (1, 2, 3, 7)", lambda a, b: a["x"] - b["x"] in (1, 2, 3, 7)),
        (
            f"a.x IN ({VALUES}) AND a.x - b.x BETWEEN 0 AND 9",
            lambda a, b: a["x"] % 3 == 0 and 0 <= a["x"] - b["x"] <= 9,
        ),
        (
            f"(a.x IN ({VALUES}) OR a.x * b.x > 9000)",
            lambda a, b: a["x"] % 3 == 0 or a["x"] * b["x"] > 9000,
        ),
        ("a.x IN (1.5, 3.0, 6, 9e0)", lambda a, b: a["x"] in (3, 6, 9)),
        ("a.x / 1 IN (3)", lambda a, b: a["x"] == 3),
    ],
)
def test_in_lists(condition: str, test: Callable) -> None:
    assert joined(condition) == pairs_where(test)


def test_in_list_of_one_side_is_one_node() -> None:
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    made = compile_query(
        f"SELECT a.x {FROM} AND a.x IN ({VALUES}) AND b.x - a.x < 5",
        {"a": schema, "b": schema},
        time={"a": "t", "b": "t"},
    )
    assert repr(made.left.filter).startswith("l.x in (0, 3, 6, ")
    assert repr(made.left.filter).endswith("and 492 more)")
    assert len(list(walk(made.predicate))) == 5


def test_in_list_of_text() -> None:
    table = pa.table({"t": [1, 2, 3], "s": ["it's", None, "b"]})
    values = ", ".join(f"'v{k}'" for k in range(1000))
    for condition, rows in (
        (f"a.s IN ({values}, 'it''s')", [1]),
        (f"a.s NOT IN ({values}, 'it''s')", [3]),
        (f"CASE WHEN a.t > b.t THEN a.s ELSE b.s END IN ({values}, 'b')", [3]),
    ):
        found = penstock.sql(
            f"SELECT a.t AS i {FROM.replace('100', '0')} AND {condition}",
            {"a": table, "b": table},
            time={"a": "t", "b": "t"},
        )
        assert found["i"].to_pylist() == rows, condition


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("(" * 5000 + "a.x < b.x" + ")" * 5000, "nested too deeply"),
        (nested("abs({})", 5000, "a.x") + " < 3", "nested too deeply"),
        (nested("CASE WHEN a.x > 1 THEN {} END", 5000, "b.x") + " < 3", "nested too deeply"),
        ("a.x IN (" + ",".join(["1"] * MOST_TOKENS) + ")", "320,0.. words, numbers and signs"),
        ("a.x = " + "1" * MOST_CHARACTERS, "characters, more than"),
        (
            "b.x = 1" + " JOIN b" * 60,
            "the query has 61 joins, more than 8",
        ),
        ("CASE " + "WHEN a.x = 1 THEN 2 " * 251 + "END = 1", "CASE has 251 branches"),
        (f"coalesce({', '.join(['a.x'] * 251)}) = 1", "COALESCE has 251 values"),
        (f"CAST(a.x AS {'ARRAY<' * 800}INT{'>' * 800}) = 1", "more than 60 lists, structs or maps"),
        ("a.x = " + "1" * 100_000, "a number has 100,000 digits, more than 200"),
        (f"greatest({', '.join(['a.x'] * 251)}) = 1", "GREATEST has 251 values"),
    ],
)
def test_what_is_too_large_is_refused(condition: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        joined(condition)


def test_many_columns_and_aggregates() -> None:
    tables, time = {"a": A, "b": B}, {"a": "t", "b": "t"}
    columns = ", ".join(f"a.x + {k} AS c{k}" for k in range(500))
    found = penstock.sql(f"SELECT {columns} {FROM} AND a.x = b.x", tables, time=time)
    assert found.num_columns == 500
    folds = ", ".join(f"sum(b.x + {k}) AS c{k}" for k in range(50))
    found = penstock.sql(f"SELECT {folds} {FROM} AND a.x = b.x", tables, time=time)
    (row,) = found.to_pylist()
    pairs = [b["x"] for a in LEFT for b in RIGHT if a["x"] == b["x"]]
    assert [row[f"c{k}"] for k in range(50)] == [sum(pairs) + k * len(pairs) for k in range(50)]
    folds = ", ".join(f"sum(a.x * b.x + {k}) AS c{k}" for k in range(9))
    with pytest.raises(QueryError, match="9 values that are computed from both tables, more than"):
        compile_query(f"SELECT {folds} {FROM}", {"a": A.schema, "b": B.schema}, time=time)


def test_conditions_of_many_computed_columns() -> None:
    """Each function of one side is a column before the join; the time is linear in their number."""
    condition = " + ".join(f"length(concat(a.id, '{k}')) * b.x" for k in range(100))
    # Of one digit and one or two of each number.
    digits = sum(len(str(k)) for k in range(100))
    found = pairs_where(lambda a, b: (100 * len(str(a["id"])) + digits) * b["x"] < 9000)
    assert 0 < len(found) < ROWS * ROWS
    assert joined(f"{condition} < 9000") == found


@pytest.mark.parametrize("count", [5000, 5001])
def test_lists_of_a_query_in_parts_are_limited(count: int) -> None:
    """They are counted together; one join takes longer ones."""
    values = ", ".join(map(str, range(count)))
    query = f"a.x IN ({values}) AND b.x IN ({values}) ORDER BY a.id, a.missing"
    with pytest.raises(QueryError, match="missing" if count == 5000 else "10,002 values in IN"):
        joined(query)


def test_long_texts_are_not_shown_whole() -> None:
    with pytest.raises(QueryError, match="is not an ISO date or time") as caught:
        joined(f"CAST('{'y' * 100_000}' AS DATE) = CAST(a.t AS DATE)")
    assert 4000 < len(str(caught.value)) < 4100


def test_long_parameters_are_refused() -> None:
    for value, unit in (("y" * (MOST_CHARACTERS + 1), "characters"), (bytes(3 << 20), "bytes")):
        with pytest.raises(QueryError, match=f"parameter p has [0-9,]+ {unit}, more than"):
            compile_query(
                f"SELECT a.x {FROM} AND a.x = :p",
                {"a": A.schema, "b": B.schema},
                time={"a": "t", "b": "t"},
                params={"p": value},
            )


def test_a_long_name_is_not_shown_whole() -> None:
    with pytest.raises(QueryError, match="a name of 100000 characters") as caught:
        joined(f"a.{'x' * 100_000} = 1")
    assert len(str(caught.value)) < 500


def test_shared_parts_do_not_multiply() -> None:
    """Each level uses the one below twice; written out it would be 2**40 terms."""
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    doubled = "a"
    for _ in range(40):
        doubled = f"(SELECT t, CASE WHEN x > t THEN x ELSE x + t END & 1 AS x FROM {doubled}) q"
    made = compile_query(
        f"SELECT q.x FROM {doubled} JOIN b ON q.t = b.t AND q.x < b.x",
        {"a": schema, "b": schema},
        time={"q": "t", "b": "t"},
    )
    assert len(repr(made.predicate)) < 10_000
    join_form(made.predicate, "r")


# -- text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("'it''s'", "it's"), ("''''", "'"), ("''", ""), (r"'it\'s'", "it's"), ('"it\'s"', "it's")],
)
def test_quotes_inside_text(text: str, value: str) -> None:
    table = pa.table({"t": [1], "s": [value]})
    found = penstock.sql(
        f"SELECT a.t {FROM} AND a.s = {text}", {"a": table, "b": table}, time={"a": "t", "b": "t"}
    )
    assert found.num_rows == 1


@pytest.mark.parametrize("end", ["", ";", "; -- comment", ";\n/* a 'comment' */", " -- it's"])
def test_one_statement_with_what_may_follow(end: str) -> None:
    found = penstock.sql(f"SELECT a.id {FROM}{end}", {"a": A, "b": B}, time={"a": "t", "b": "t"})
    assert found.num_rows == ROWS * ROWS


@pytest.mark.parametrize("end", ["; SELECT 1", "; DELETE FROM a"])
def test_two_statements_are_refused(end: str) -> None:
    with pytest.raises(QueryError, match="one SELECT statement is needed, not 2"):
        penstock.sql(f"SELECT a.id {FROM}{end}", {"a": A, "b": B})


# -- room for recursion ---------------------------------------------------------------------------


def _down(levels: int) -> int:
    return 0 if levels == 0 else 1 + _down(levels - 1)


def test_deep_work_leaves_the_limit_as_it_was() -> None:
    limit, size = sys.getrecursionlimit(), threading.stack_size()
    assert run_deep(lambda: _down(FRAMES - 200)) == FRAMES - 200
    with pytest.raises(RecursionError):
        run_deep(lambda: _down(FRAMES))
    with pytest.raises(KeyError, match="one"):
        run_deep(lambda: {}["one"])
    assert (sys.getrecursionlimit(), threading.stack_size()) == (limit, size)


def test_deep_work_in_many_threads() -> None:
    limit = sys.getrecursionlimit()
    found: list[int] = []

    def work() -> None:
        for _ in range(20):
            found.append(run_deep(lambda: _down(2000)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [2000] * 80
    assert sys.getrecursionlimit() == limit


def test_recursion_through_c_fits_the_stack() -> None:
    """Calls through C take stack of the thread; the limit comes before its end."""

    def down(levels: int) -> int:
        return 0 if levels == 0 else 1 + next(map(down, [levels - 1]))

    with pytest.raises(RecursionError):
        run_deep(lambda: down(FRAMES * 2))
