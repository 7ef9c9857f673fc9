"""Joins of tables with any comparison beside equalities: rows, and who runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.api import around
from penstock.around import parts, splitting
from penstock.errors import PenstockError
from penstock.host.join.table import table_join
from penstock.query.options import KeptQueries

OVERLAP = "a.k = b.k AND a.lo <= b.hi AND b.lo <= a.hi"
#: Queries, and how many of their joins are Penstock's where equal keys leave many pairs.
QUERIES = {
    f"SELECT a.id, b.id AS i FROM a JOIN b ON {OVERLAP}": 1,
    f"SELECT a.id, b.id AS i FROM a, b WHERE {OVERLAP} AND a.f < 2": 1,
    f"SELECT a.id, b.id AS i FROM a CROSS JOIN b WHERE {OVERLAP}": 1,
    f"SELECT a.id, b.id AS i FROM a JOIN b ON {OVERLAP} AND a.f > 0 AND b.lo <> 3": 1,
    f"SELECT a.id, b.id AS i FROM a LEFT JOIN b ON {OVERLAP} AND a.f > 0": 1,
    f"SELECT a.id, b.id AS i FROM a LEFT JOIN b ON {OVERLAP} AND b.f > 0": 1,
    f"SELECT a.id, b.id AS i FROM a LEFT JOIN b ON {OVERLAP} WHERE a.f > 0": 1,
    f"SELECT a.id, b.id AS i FROM a LEFT JOIN b ON {OVERLAP} WHERE b.f > 0": 1,
    f"SELECT a.id, b.id AS i FROM a LEFT JOIN b ON {OVERLAP} WHERE b.id IS NULL": 1,
    f"SELECT a.id, b.id AS i FROM a LEFT JOIN b ON {OVERLAP} WHERE a.lo + b.hi > 30": 1,
    f"SELECT a.id, b.id AS i FROM a RIGHT JOIN b ON {OVERLAP} AND a.f > 0 WHERE b.f > 0": 1,
    f"SELECT a.id, b.id AS i FROM a FULL JOIN b ON {OVERLAP} AND a.f > 0 WHERE a.f > 0": 1,
    f"SELECT a.id FROM a LEFT SEMI JOIN b ON {OVERLAP} AND b.f > 0 WHERE a.f > 0": 1,
    f"SELECT a.id FROM a LEFT ANTI JOIN b ON {OVERLAP} AND a.f > 0 WHERE a.lo < 30": 1,
    "SELECT a.id, b.id AS i FROM a JOIN b ON a.k = b.k AND a.lo < b.lo": 1,
    "SELECT a.id, b.id AS i FROM a JOIN b ON a.k = b.k AND a.f <> b.f": 1,
    "SELECT a.id, b.id AS i FROM a JOIN b ON a.k = b.k AND (a.lo = b.lo OR a.f > b.f)": 1,
    "SELECT a.id, b.id AS i FROM a JOIN b ON a.k % 2 = b.k % 2 AND a.f < b.f": 1,
    "SELECT a.id, b.id AS i FROM a JOIN b ON a.k <=> b.k AND a.f < b.f": 1,
    "SELECT a.id, b.id AS i FROM a JOIN b USING (k) WHERE a.lo < b.lo": 1,
    "SELECT a.id, b.id AS i FROM a JOIN b ON length(a.t) = length(b.t) AND a.f < b.f": 1,
    f"SELECT a.id, b.id AS i FROM a JOIN (SELECT * FROM b WHERE f > 0) b ON {OVERLAP}": 1,
    "SELECT a.id, b.n FROM a JOIN (SELECT k, max(lo) AS lo, count(*) AS n FROM b GROUP BY k) b "
    "ON a.k = b.k AND a.lo < b.lo": 1,
    f"SELECT a.id, b.id AS i FROM a JOIN a b ON {OVERLAP} AND a.id < b.id": 1,
    f"SELECT a.id, b.id AS i, c.id AS j FROM a JOIN b ON {OVERLAP} JOIN c ON c.k = b.k "
    "AND c.lo < a.hi": 2,
    f"SELECT a.id, b.id AS i, c.id AS j FROM a JOIN c ON a.id = c.id JOIN b ON {OVERLAP} "
    "WHERE c.f > 0": 1,
    f"SELECT a.id, b.id AS i, c.id AS j FROM a LEFT JOIN c ON a.id = c.id LEFT JOIN b ON {OVERLAP} "
    "WHERE c.f IS NULL": 1,
    f"SELECT a.t, count(*) AS n, sum(b.lo) AS s FROM a JOIN b ON {OVERLAP} GROUP BY a.t": 1,
    f"SELECT DISTINCT a.t FROM a JOIN b ON {OVERLAP}": 1,
    f"SELECT a.id, b.id AS i FROM a JOIN b ON {OVERLAP} ORDER BY a.id, b.id LIMIT 7": 1,
    "SELECT a.id, b.id AS i FROM a JOIN b ON a.f < b.f AND a.lo > b.hi ORDER BY a.id, b.id "
    "LIMIT 7": 1,
    f"SELECT a.t, count(*) AS n FROM a JOIN b ON {OVERLAP} GROUP BY a.t LIMIT 99": 1,
    f"SELECT DISTINCT a.t FROM a JOIN b ON {OVERLAP} LIMIT 99": 1,
    f"SELECT count(*) AS n FROM a JOIN b ON {OVERLAP} LIMIT 7": 1,
    "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND a.lo < b.hi)": 1,
    "SELECT id FROM a WHERE f > 0 AND NOT EXISTS (SELECT * FROM b WHERE k = a.k AND lo < a.hi)": 1,
    "SELECT a.id FROM a WHERE a.k IN (SELECT b.k FROM b WHERE a.lo <= b.hi)": 1,
    "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND a.lo < b.hi) "
    "AND NOT EXISTS (SELECT 1 FROM c WHERE a.k = c.k AND a.lo > c.hi)": 2,
    "SELECT a.t, count(*) AS n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k "
    "AND a.f < b.f) GROUP BY a.t": 1,
    "SELECT a.id FROM a WHERE NOT NOT EXISTS (SELECT b.k FROM b WHERE a.k = b.k AND a.f < b.f)": 1,
    # An aggregate gives a row in any case; NULL decides NOT IN; a LIMIT; other subqueries.
    "SELECT a.id FROM a WHERE EXISTS (SELECT max(b.lo) FROM b WHERE a.k = b.k AND a.lo < b.hi)": 0,
    "SELECT a.id FROM a WHERE a.k NOT IN (SELECT b.k FROM b WHERE a.lo <= b.hi)": 0,
    "SELECT a.id FROM a WHERE EXISTS (SELECT b.k FROM b WHERE a.k = b.k AND a.lo < b.hi "
    "GROUP BY b.k HAVING count(*) > 1)": 0,
    "SELECT a.id, (SELECT max(b.lo) FROM b) AS m FROM a "
    "WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND a.lo < b.hi)": 0,
    "SELECT a.id FROM a WHERE a.id < 9 OR EXISTS (SELECT 1 FROM b WHERE a.k = b.k "
    "AND a.lo < b.hi)": 0,
    "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k)": 0,
    "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE instr(b.t, a.t) > 1)": 0,
    "SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.t LIKE a.t AND a.k = b.k)": 0,
    "SELECT 1 AS id WHERE EXISTS (SELECT 1 FROM b WHERE b.f > 1)": 0,
    "SELECT a.id, b.id AS i FROM a JOIN b ON a.k = b.k AND a.t = b.t": 0,
    "SELECT a.id, b.id AS i FROM a JOIN b ON a.k = b.k AND a.f > 1": 0,
}


def table(seed: int, rows: int) -> pa.Table:
    """Few values of each column, NULL, NaN, infinities, both zeros and extreme integers."""
    rng = np.random.default_rng(seed)

    def drawn(values: list[Any], form: pa.DataType) -> pa.Array:
        return pa.array([values[n] for n in rng.integers(0, len(values), rows)], form)

    lows = rng.integers(0, 40, rows)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int32()),
            "k": drawn([None, 0, 1, 2, 2**63 - 1, -(2**63)], pa.int64()),
            "f": drawn([None, np.nan, 0.0, -0.0, 1.0, 2.5, np.inf, -np.inf], pa.float64()),
            "t": drawn([None, "", "a", "ab", "b"], pa.string()),
            "lo": pa.array(lows, pa.int32()),
            "hi": pa.array(lows + rng.integers(0, 9, rows), pa.int64()),
        }
    )


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Let Penstock run each join with a comparison, and note those that it runs."""
    runs: list[Any] = []
    choose = table_join.directions

    def noted(*args: Any) -> list[Any]:
        runs.append(args)
        return choose(*args)

    with monkeypatch.context() as forced:
        forced.setattr(table_join, "directions", noted)
        forced.setattr(parts, "MANY_PAIRS", (-1, -1))
        forced.setattr(around, "_kept", KeptQueries())
        yield runs


def duckdb_rows(text: str, tables: dict[str, pa.Table]) -> Counter[tuple[Any, ...]]:
    text = text.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
    text = text.replace("<=>", "IS NOT DISTINCT FROM")
    with duckdb.connect() as connection:
        for name, one in tables.items():
            connection.register(name, one)
        return Counter(connection.sql(text).fetchall())


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_rows_are_duckdbs_whoever_runs_the_join(seed, monkeypatch):
    tables = {"a": table(seed, 40), "b": table(10 + seed, 30), "c": table(20 + seed, 20)}
    for text, joins in QUERIES.items():
        expected = duckdb_rows(text, tables)
        with counting(monkeypatch) as runs:
            assert rows_of(penstock.sql(text, tables)) == expected, text
        assert len(runs) == joins, text


def test_empty_tables(monkeypatch):
    full, none = table(1, 20), table(2, 0)
    for text in list(QUERIES)[::5]:
        for tables in ({"a": none, "b": full, "c": full}, {"a": full, "b": none, "c": none}):
            with counting(monkeypatch):
                assert rows_of(penstock.sql(text, tables)) == duckdb_rows(text, tables), text


def test_names_that_are_words_of_sql_or_have_capitals(monkeypatch):
    names = {"id": "Id", "k": "Select", "lo": "from", "hi": "Hi There"}
    tables = {
        "Order": table(1, 30).select(list(names)).rename_columns(list(names.values())),
        "Group": table(2, 20).select(list(names)).rename_columns(list(names.values())),
    }
    on = "o.`Select` = g.`SELECT` AND o.`from` <= g.`hi there` AND g.`FROM` <= o.`Hi There`"
    for text in (
        f"SELECT o.ID AS x, g.Id AS y FROM `Order` o LEFT JOIN `Group` g ON {on} AND o.`From` > 5",
        f"SELECT o.ID AS x FROM `Order` o WHERE EXISTS (SELECT 1 FROM `Group` g WHERE {on})",
    ):
        expected = duckdb_rows(text.replace("`", '"'), tables)
        with counting(monkeypatch) as runs:
            assert rows_of(penstock.sql(text, tables)) == expected
        assert len(runs) == 1


@pytest.mark.parametrize(
    ("on", "is_penstocks"),
    [
        ("a.k = b.k AND a.lo < b.lo", True),
        ("a.u = b.u AND a.lo < b.lo", False),
        ("a.t = b.t AND a.lo < b.lo", True),
        ("a.k = b.u AND a.lo < b.lo", False),
        ("a.k = b.k AND a.u = b.u AND a.lo < b.lo", False),
        ("a.k % 2 = b.k % 2 AND a.lo < b.lo", True),
        ("a.k = b.s AND a.lo < b.lo", True),
        ("a.k = b.k AND a.lo < b.lo AND a.u = 7", False),
    ],
)
def test_samples_say_whether_equal_keys_leave_many_pairs(on, is_penstocks, monkeypatch):
    rng = np.random.default_rng(4)
    rows = 20_000
    columns = {"k": rng.integers(0, 5, rows), "u": rng.permutation(rows)}
    lows = pa.array(np.where(rng.random(rows) < 1e-4, rng.random(rows), 2.0))
    tables = {
        name: pa.table(
            {**columns, "lo": lows, "s": pa.array(columns["k"], pa.int16())}
        ).append_column("t", pa.array(columns["k"]).cast(pa.string()))
        for name in "ab"
    }
    decisions: list[bool] = []
    decide = splitting._Splitter._has_many_pairs
    monkeypatch.setattr(around, "_kept", KeptQueries())
    monkeypatch.setattr(
        splitting._Splitter,
        "_has_many_pairs",
        lambda *args: decisions.append(decide(*args)) or decisions[-1],
    )
    penstock.sql(f"SELECT a.u, b.u AS v FROM a JOIN b ON {on}", tables)
    assert decisions == [is_penstocks]


def test_some_rows_of_a_join_without_equality() -> None:
    tables = {"a": table(1, 300), "b": table(2, 300)}
    found = penstock.sql("SELECT a.id FROM a JOIN b ON a.f < b.f AND a.lo > b.hi LIMIT 7", tables)
    assert found.num_rows == 7


@pytest.mark.parametrize("more", [{}, {"time": {"a": "lo"}}])
@pytest.mark.parametrize("option", ["within", "disorder"])
@pytest.mark.parametrize("on", ["abs(a.f - b.f) < 5", "a.f < b.f AND a.lo <> b.lo", "a.k = b.k"])
@pytest.mark.parametrize("groups", ["", "GROUP BY a.t"])
def test_options_of_windows_are_refused_without_one(
    on: str, option: str, more: dict[str, Any], groups: str
) -> None:
    tables = {"a": table(1, 9), "b": table(2, 9)}
    options: dict[str, Any] = {**more, option: 5}
    # `within=` makes a window where both tables have a time.
    said = r"[ab] has no time column: name it" if option == "within" else "^disorder= is not for "
    with pytest.raises(PenstockError, match=said):
        penstock.sql(f"SELECT a.t FROM a JOIN b ON {on} {groups}", tables, **options)


@pytest.mark.parametrize("third", ["abs(a.f - c.f) < 3", "b.f < c.f", "a.k = c.k AND a.f < c.f"])
@pytest.mark.parametrize("more", ["", ", a.lo AS t", ", b.lo AS t"])
@pytest.mark.parametrize("sizes", [(30, 30, 30), (200, 30, 8)])
def test_within_holds_for_later_joins_whatever_is_selected(
    third: str, more: str, sizes: tuple[int, ...]
) -> None:
    tables = {name: table(seed, sizes[seed]) for seed, name in enumerate("abc")}
    joins = f"a JOIN b ON a.f < b.f {{}} JOIN c ON {third} {{}}"
    text = f"SELECT a.id, b.id AS i, c.id AS j{more} FROM {joins}"
    bounds = [f"AND abs(a.lo - {name}.lo) <= 2 " for name in "bc"]
    with duckdb.connect() as engine:
        for name, one in tables.items():
            engine.register(name, one)
        expected = engine.sql(text.format(*bounds)).fetchall()
    times = dict.fromkeys("abc", "lo")
    found = penstock.sql(text.format("", ""), tables, time=times, within=2)
    assert Counter(tuple(row.values()) for row in found.to_pylist()) == Counter(expected)
