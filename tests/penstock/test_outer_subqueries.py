"""Outer joins with computed columns of subqueries: NULL where the side has no row."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError
from penstock.query import compile_query

L = pa.table({"t": pa.array([1, None, 5], pa.int64()), "id": [1, 2, 3]})
R = pa.table({"t": pa.array([1, 9, None], pa.int64()), "id": [4, 5, 6], "s": ["x", None, "z"]})
RIGHT = (
    "(SELECT t, id, 1 AS one, 'yes' AS tag, coalesce(s, '-') AS c, s IS NULL AS n, "
    "CASE WHEN id IS NULL THEN 2.5 END AS k FROM r)"
)
LEFT = "(SELECT t, id, TRUE AS own FROM l)"
QUERY = f"""
SELECT a.id AS a, b.id AS b, own, one, tag, c, n, k, coalesce(b.one, 7) AS d
FROM {LEFT} a {{kind}} JOIN {RIGHT} b ON a.t = b.t
"""
MATCH = (1, 4, True, 1, "yes", "x", False, None, 1)
LEFT_ALONE = [(x, None, True, None, None, None, None, None, 7) for x in (2, 3)]
RIGHT_ALONE = [
    (None, 5, None, 1, "yes", "-", True, None, 1),
    (None, 6, None, 1, "yes", "z", False, None, 1),
]
WANTED = {
    "LEFT": [MATCH, *LEFT_ALONE],
    "RIGHT": [MATCH, *RIGHT_ALONE],
    "FULL": [MATCH, *LEFT_ALONE, *RIGHT_ALONE],
}


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    found = [tuple(row.values()) for row in table.to_pylist()]
    return sorted(found, key=str)


@pytest.mark.parametrize("kind", WANTED)
def test_in_tables(kind: str) -> None:
    joined = penstock.sql(QUERY.format(kind=kind), {"l": L, "r": R}, time={"a": "t", "b": "t"})
    assert rows(joined) == sorted(WANTED[kind], key=str)


@pytest.mark.parametrize("kind", WANTED)
def test_in_streams(kind: str) -> None:
    schemas = {"l": L.schema, "r": R.schema}
    stream = penstock.stream(QUERY.format(kind=kind), schemas, time={"a": "t", "b": "t"})
    for name, table in (("l", L), ("r", R)):
        for batch in table.to_batches(max_chunksize=1):
            stream.push(name, batch)
    joined = [stream.poll(), stream.close()]
    assert rows(pa.concat_tables(joined)) == sorted(WANTED[kind], key=str)


def test_where_on_a_constant_of_a_side_that_may_be_missing() -> None:
    query = QUERY.format(kind="LEFT") + "WHERE b.one = 1"
    found = penstock.sql(query, {"l": L, "r": R}, time={"a": "t", "b": "t"})
    assert rows(found) == [MATCH]
    with pytest.raises(QueryError, match="WHERE tests b, whose columns are NULL"):
        compile_query(query, {"l": L.schema, "r": R.schema}, time={"a": "t", "b": "t"})
