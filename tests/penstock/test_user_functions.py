"""Functions of users: of columns of one side, and of the values of a pair."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import DataError, QueryError, UsageError

TIME = {"a": "t", "b": "t"}
ON = "b.t BETWEEN a.t - 3 AND a.t + 3"
A = pa.table({"t": [1, 2, 3], "x": [0.0, 5.5, None], "name": ["Ann", "Bo", None]})
B = pa.table({"t": [1, 3, 9], "y": [1, 5, 7], "code": ["nna", "OB", "x"]})
TABLES = {"a": A, "b": B}


@penstock.udf
def apart(x, y, least):
    return abs(x - y) > least


@penstock.udf
def ratio(x, y):
    return (x + 1) / (y - 1)


@penstock.udf(takes=[pa.string()], returns=pa.string())
def turned(names: pa.Array) -> pa.Array:
    return pc.utf8_reverse(pc.utf8_lower(names))


@penstock.udf(takes=[pa.float64(), pa.int64()], returns=pa.float64())
def known(x: pa.Array, otherwise: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_null(x), otherwise.cast(pa.float64()), x)


OURS = {"apart": apart, "Ratio": ratio, "turned": turned, "known": known}


def pairs(query: str, **options) -> list[tuple]:
    found = penstock.sql(query, TABLES, time=TIME, functions=OURS, **options)
    return sorted(zip(*found.to_pydict().values(), strict=True), key=repr)


def test_a_function_of_pairs_is_a_predicate() -> None:
    found = pairs(f"SELECT a.t AS a, b.t AS b FROM a JOIN b ON apart(a.x, b.y, 2) AND {ON}")
    assert found == [(1, 3), (2, 1)]  # and none without x


def test_a_function_of_pairs_is_a_value() -> None:
    found = pairs(f"SELECT a.t AS a, b.t AS b, ratio(a.x, b.y) AS r FROM a JOIN b ON {ON}")
    values = {(a, b): r for a, b, r in found}
    assert values[2, 3] == 6.5 / 4
    assert values[1, 1] == math.inf
    assert values[3, 1] is None


def test_functions_of_columns_stand_before_and_after_the_join() -> None:
    found = pairs(
        f"SELECT turned(a.name) AS n, known(a.x, b.y) AS x FROM a JOIN b "
        f"ON turned(a.name) = lower(b.code) AND {ON}"
    )
    assert found == [("nna", 0.0), ("ob", 5.5)]
    assert (("x", 5.0) in found) is False
    every = pairs(f"SELECT known(a.x, b.y) AS x FROM a JOIN b ON a.t >= 3 AND {ON}")
    assert every == [(1.0,), (5.0,)]


def test_functions_of_pairs_stand_behind_the_join() -> None:
    found = pairs(
        f"SELECT a.t AS a, count_if(apart(a.x, b.y, 2)) AS n, max(ratio(b.t, a.t)) AS r FROM a "
        f"JOIN b ON {ON} GROUP BY a.t ORDER BY a"
    )
    assert found == [(1, 1, math.inf), (2, 1, 4.0), (3, 0, 2.0)]


def test_streams_call_functions() -> None:
    query = f"SELECT turned(a.name) AS n, b.t AS b FROM a JOIN b ON apart(a.x, b.y, 2) AND {ON}"
    schemas = {name: table.schema for name, table in TABLES.items()}
    with penstock.stream(query, schemas, time=TIME, functions=OURS) as stream:
        stream.push("a", A)
        stream.push("b", B)
        found = stream.close()
    assert sorted(map(repr, found.to_pylist())) == sorted(
        map(repr, penstock.sql(query, TABLES, time=TIME, functions=OURS).to_pylist())
    )


def test_two_functions_of_one_name_are_two() -> None:
    def made(by: float):
        @penstock.udf
        def scaled(x):
            return x * by

        return scaled

    query = f"SELECT DISTINCT scaled(b.y + a.t * 0) AS s FROM a JOIN b ON b.t = 1 AND {ON}"
    for by in (2.0, 3.0):
        found = penstock.sql(query, TABLES, time=TIME, functions={"scaled": made(by)})
        assert found["s"].to_pylist() == [by]


def test_functions_of_two_tables_of_numbers_are_two() -> None:
    def made(middle: float):
        steps = np.zeros(3000)
        steps[1500] = middle

        @penstock.udf
        def looked_up(x):
            return steps[int(x) + 1499]

        return looked_up

    query = f"SELECT looked_up(b.y + a.t * 0) AS s FROM a JOIN b ON b.t = 1 AND a.t = 1 AND {ON}"
    for middle in (2.0, 3.0):
        found = penstock.sql(query, TABLES, time=TIME, functions={"looked_up": made(middle)})
        assert found["s"].to_pylist() == [middle]


MISUSED = {
    "another number": ("apart(a.x, b.y)", QueryError, "apart takes 3 arguments, not 2"),
    "no numbers": ("apart(a.name, b.y, 1)", QueryError, "apart needs numbers, not string"),
    "not given": ("nearby(a.x, b.y)", QueryError, "function nearby is not supported"),
}


@pytest.mark.parametrize("name", MISUSED)
def test_misuse_is_refused(name: str) -> None:
    condition, kind, message = MISUSED[name]
    with pytest.raises(kind, match=message):
        pairs(f"SELECT a.t AS a FROM a JOIN b ON {condition} AND {ON}")


def test_what_is_no_function() -> None:
    with pytest.raises(UsageError, match="needs takes="):
        penstock.udf(takes=[pa.int64()])
    with pytest.raises(UsageError, match="udf text cannot be compiled for 1 float64 values"):

        @penstock.udf
        def text(x):
            return x.upper()

    with pytest.raises(UsageError, match="return a number or a truth value"):

        @penstock.udf
        def two(x):
            return x, x

    with pytest.raises(UsageError, match="functions of f must be made by"):
        penstock.sql(f"SELECT a.t FROM a JOIN b ON {ON}", TABLES, time=TIME, functions={"f": abs})
    with pytest.raises(UsageError, match="knows the query and the name of the device alone"):
        pairs(f"SELECT a.t AS a FROM a JOIN b ON apart(a.x, b.y, 2) AND {ON}", workers=2)


def test_a_function_that_fails_says_so() -> None:
    @penstock.udf(takes=[pa.string()], returns=pa.int64())
    def broken(names: pa.Array) -> pa.Array:
        raise ValueError("no such name")

    with pytest.raises(DataError, match="no such name"):
        penstock.sql(
            f"SELECT a.t AS a FROM a JOIN b ON broken(a.name) = b.t AND {ON}", TABLES, time=TIME,
            functions={"broken": broken},
        )  # fmt: skip
