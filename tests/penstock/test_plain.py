"""Short forms of SQL, written in longer ones: in joins and in parts that DuckDB computes."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError

A = pa.table({"id": [1, 2, 3, 4, 5], "s": ["5", "x", None, "50", "5%"], "t": [0] * 5})
B = pa.table({"j": [1], "t": [0]})
ON = "a JOIN b ON b.t BETWEEN a.t AND a.t"

CASES = {
    "a.s NOT LIKE '5%'": [2],
    "NOT a.s NOT LIKE '5%'": [1, 4, 5],
    "a.s NOT LIKE '5%' = TRUE": [2],
    "(a.s NOT LIKE '5%') IS NULL": [3],
    "a.s NOT LIKE '%0'": [1, 2, 5],
    "a.s NOT LIKE '5/%' ESCAPE '/'": [1, 2, 4],
    "a.s NOT ILIKE 'X'": [1, 4, 5],
    "a.s NOT RLIKE '^5'": [2],
    "a.s LIKE ANY ('5', 'x')": [1, 2],
    "a.s NOT LIKE ANY ('5%', 'x')": [1, 2, 4, 5],
    "a.s NOT LIKE ALL ('5%', 'x')": [],
    "a.s ILIKE ALL ('5%', '%0')": [4],
    "a.s NOT IN ('5', 'x')": [4, 5],
    "a.id NOT BETWEEN 2 AND 4": [1, 5],
    "a.id BETWEEN SYMMETRIC 4 AND 2": [2, 3, 4],
    "a.id NOT BETWEEN SYMMETRIC 4 AND a.t + 2": [1, 5],
    "a.s IS NOT NULL": [1, 2, 4, 5],
    "a.s IS DISTINCT FROM 'x'": [1, 3, 4, 5],
    "a.s IS NOT DISTINCT FROM 'x'": [2],
    "(a.s = 'x') IS NOT TRUE": [1, 3, 4, 5],
}


@pytest.mark.parametrize("condition", CASES)
def test_a_negated_condition_is_negated(condition):
    for query in (
        f"SELECT a.id FROM {ON} AND {condition}",
        f"SELECT a.id FROM {ON} WHERE {condition}",
        f"SELECT a.id, lower('X') AS x FROM {ON} WHERE CASE WHEN {condition} THEN TRUE END",
    ):
        rows = penstock.sql(query, {"a": A, "b": B}, time={"a": "t", "b": "t"})
        assert sorted(rows["id"].to_pylist()) == CASES[condition], query


NAMED = {
    "a AS x(one, two, t)": A,
    "(SELECT id, s, t FROM a) AS x(one, two, t)": A,
    "c AS x(one, two, t)": A,
}


@pytest.mark.parametrize("computed", ["x.two", "upper(x.two)"])
@pytest.mark.parametrize("source", NAMED)
def test_columns_are_named_behind_an_alias(source, computed):
    query = (
        "WITH c(x, y, z) AS (SELECT id, s, t FROM a) "
        f"SELECT x.one, {computed} AS two FROM {source} JOIN b ON b.t BETWEEN x.t AND x.t"
    )
    rows = penstock.sql(query, {"a": A, "b": B}, time={"x": "t", "b": "t"})
    assert sorted(rows.to_pylist(), key=lambda row: row["one"]) == [
        {
            "one": row["id"],
            "two": row["s"] and row["s"].upper() if "upper" in computed else row["s"],
        }
        for row in A.to_pylist()
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a AS x(one, t)", "2 names for 3 columns (at line 1, column "),
        ("(SELECT * FROM a) AS x(one, two, t)", "a SELECT that lists its columns"),
    ],
)
def test_names_that_are_not_those_of_all_columns_are_refused(source, message):
    query = f"SELECT x.t FROM {source} JOIN b ON b.t BETWEEN x.t AND x.t"
    with pytest.raises(QueryError, match=re.escape(message)):
        penstock.sql(query, {"a": A, "b": B}, time={"x": "t", "b": "t"})
