"""ANSI mode: what divides by 0 or overflows is an error where it is computed, and only there."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.cli import main
from penstock.errors import DataError, QueryError
from tests.kit.effort import effort

T = pa.table(
    {
        "t": [1, 2, 3, 4, 5],
        "x": pa.array([7, 200, None, 3, 9], pa.int32()),
        "y": pa.array([0, 5, 0, None, 3], pa.int32()),
        "z": pa.array([2**31 - 1, 2, -(2**31), 5, 1], pa.int32()),
        "two": pa.array([2] * 5, pa.int32()),
    }
)
TIME = {"a": "t", "b": "t"}


class Failed(Exception):
    """A row has no value in ANSI mode."""


def value(rng: random.Random, depth: int) -> tuple[str, object]:
    """A number: its SQL, and what it is of a row."""
    if depth == 0 or rng.random() < 0.15:
        name = rng.choice(["a.x", "b.y", "a.z", "b.two"])  # constants would be folded
        return name, lambda row: row[name[2:]]
    kind = rng.choice(["%", "DIV", "+", "*", "case", "coalesce", "nullif"])
    (p, a), (q, b) = value(rng, depth - 1), value(rng, depth - 1)
    if kind == "case":
        text, test = condition(rng, depth - 1)
        return f"CASE WHEN {text} THEN {p} ELSE {q} END", (
            lambda row: a(row) if test(row) else b(row)
        )
    if kind == "coalesce":
        return f"coalesce({p}, {q})", lambda row: b(row) if (own := a(row)) is None else own
    if kind == "nullif":
        return f"nullif({p}, {q})", (
            lambda row: None if (own := a(row)) == b(row) and own is not None else own
        )

    def computed(row):
        left, right = a(row), b(row)
        if left is None or right is None:
            return None
        if kind in ("+", "*"):
            made = left + right if kind == "+" else left * right
            if not -(2**31) <= made < 2**31:
                raise Failed
            return made
        if right == 0:
            raise Failed
        size, sign = divmod(abs(left), abs(right)), -1 if left < 0 else 1
        return size[1] * sign if kind == "%" else size[0] * (-1 if (left < 0) != (right < 0) else 1)

    return f"({p} {kind} {q})", computed


def condition(rng: random.Random, depth: int) -> tuple[str, object]:
    kind = rng.choice(["<", "=", "AND", "OR", "NOT", "IS NULL"])
    if kind in ("AND", "OR"):
        (p, a), (q, b) = condition(rng, depth), condition(rng, depth)
        ends = kind == "OR"

        def both(row):
            first = a(row)
            if first is ends:
                return ends
            second = b(row)
            return ends if second is ends else None if None in (first, second) else not ends

        return f"({p} {kind} {q})", both
    p, a = value(rng, depth)
    if kind == "IS NULL":
        return f"{p} IS NULL", lambda row: a(row) is None
    if kind == "NOT":
        return f"NOT ({p} > 1)", lambda row: None if (own := a(row)) is None else not own > 1
    q, b = value(rng, depth)

    def compared(row):
        left, right = a(row), b(row)
        if left is None or right is None:
            return None
        return left < right if kind == "<" else left == right

    return f"{p} {kind} {q}", compared


@pytest.mark.parametrize("around", ["", " ORDER BY 1"])
def test_random_values(around):
    """Errors are where Python meets them that evaluates only what SQL does."""
    rng, failed = random.Random(5), 0
    for _ in range(effort(400, 20)):
        text, of = value(rng, 3)
        try:
            expected = sorted(map(of, T.to_pylist()), key=lambda own: (own is not None, own))
        except Failed:
            expected = None
            failed += 1
        query = f"SELECT {text} AS v FROM a JOIN b ON a.t = b.t{around}"
        try:
            found = penstock.sql(query, {"a": T, "b": T}, time=TIME, within=0, ansi=True)
            rows = sorted(found["v"].to_pylist(), key=lambda own: (own is not None, own))
        except DataError:
            rows = None
        assert rows == expected, text
    assert failed


NEAR = "a.t - b.t BETWEEN -5 AND 5"
FAILING = {
    "a value": f"SELECT a.x / b.y AS v FROM a JOIN b ON {NEAR}",
    "a condition": f"SELECT a.t FROM a JOIN b ON {NEAR} AND a.x / b.y < 4",
    "a filter": f"SELECT a.t FROM a JOIN b ON {NEAR} WHERE b.x / b.y < 4",
    "an outer join": f"SELECT a.t FROM a LEFT JOIN b ON {NEAR} AND a.x % b.y < 4",
    "groups of rows": f"SELECT a.t, count(*) n FROM a JOIN b ON {NEAR} AND a.x % b.y < 4 "
    "GROUP BY a.t",
    "a sum": f"SELECT a.t, sum(a.x / b.y) n FROM a JOIN b ON {NEAR} GROUP BY a.t",
    "distinct rows": f"SELECT DISTINCT a.t FROM a JOIN b ON {NEAR} AND a.x % b.y < 4",
    "a key": "SELECT x % y AS k, count(*) n FROM a GROUP BY x % y",
    "a sum of groups": "SELECT t, sum(x) / sum(y) k FROM a GROUP BY t",
    "HAVING": "SELECT t FROM a GROUP BY t HAVING sum(x) / sum(y) > 1",
    "the second join": f"SELECT a.t FROM a JOIN b ON {NEAR} "
    "JOIN b c ON a.t - c.t BETWEEN -9 AND 9 AND c.x % a.y < 4",
    "around": f"SELECT x / y AS v FROM (SELECT a.x, b.y FROM a JOIN b ON {NEAR} ORDER BY 1) q",
}


@pytest.mark.parametrize("text", FAILING.values(), ids=FAILING)
def test_wherever_it_is_computed(text):
    given = {"tables": {"a": T, "b": T}, "time": TIME if "JOIN" in text else None}
    assert penstock.sql(text, **given).num_rows
    with pytest.raises(DataError, match=r"_BY_ZERO\] .* is 0: write") as failed:
        penstock.sql(text, **given, ansi=True)
    assert " join " not in str(failed.value)  # a name of ours


@pytest.mark.parametrize("what", ["a value", "a condition", "a filter", "an outer join"])
def test_streams(what):
    def rows() -> int:
        found = 0
        with penstock.stream(FAILING[what], schemas, time=TIME, ansi=ansi) as running:
            for name in schemas:
                running.push(name, T)
                found += running.poll().num_rows
            return found + running.close().num_rows

    schemas = dict.fromkeys(TIME, T.schema)
    ansi = False
    assert rows()
    ansi = True
    with pytest.raises(DataError, match="is 0: write"):
        rows()


def test_groups_of_a_stream_by_times_that_may_overflow():
    schema = pa.schema([("t", pa.int64())])
    query = "SELECT t + 1 AS later, count(*) AS n FROM a GROUP BY t + 1, window(t, 10)"
    with penstock.stream(query, {"a": schema}, time={"a": "t"}, ansi=True) as running:
        running.push("a", pa.table({"t": [1, 3, 3, 2**63 - 2]}, schema))
        complete = running.poll().to_pylist()
        assert [(int(row["later"]), row["n"]) for row in complete] == [(2, 1), (4, 2)]
        with pytest.raises(DataError, match="ARITHMETIC_OVERFLOW"):
            running.push("a", pa.table({"t": [2**63 - 1]}, schema))


@pytest.mark.parametrize("command", ["sql", "explain"])
def test_the_command_line(command, monkeypatch, tmp_path, capfd):
    pq.write_table(T, tmp_path / "a.parquet")
    text = "SELECT t, x / y AS v, count(*) AS n FROM a GROUP BY t, x / y"
    arguments = ["penstock", command, text, "--table", f"a={tmp_path / 'a.parquet'}", "--ansi"]
    monkeypatch.setattr("sys.argv", arguments)
    status = main._status()
    assert (status, "[DIVIDE_BY_ZERO]" in capfd.readouterr().err) == (
        (4, True) if command == "sql" else (0, False)
    )


def test_existence_is_refused():
    text = f"SELECT a.t FROM a SEMI JOIN b ON {NEAR} AND a.x / b.y < 4"
    with pytest.raises(QueryError, match=r"condition of a LEFT SEMI JOIN must not fail"):
        penstock.sql(text, {"a": T, "b": T}, time=TIME, ansi=True)
    guarded = text.replace("b.y <", "nullif(b.y, 0) <")
    assert penstock.sql(guarded, {"a": T, "b": T}, time=TIME, ansi=True).num_rows
