"""Chains of joins: the rows of DuckDB, and the join with the fewest pairs first."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.api.around import run_parts
from penstock.around.parts import Joined
from penstock.errors import QueryError
from penstock.query.options import QueryOptions

TIME = {"a": "t", "b": "t", "c": "t"}
WIDE = "b.t BETWEEN a.t - 2000 AND a.t + 2000 AND abs(a.x - b.x) < 3"
NARROW = "c.t BETWEEN b.t - 100 AND b.t AND c.x >= b.x"


def tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(3)
    return {
        name: pa.table(
            {
                "id": np.arange(count),
                "t": np.sort(rng.integers(0, 10_000, count)),
                "x": rng.integers(0, 50, count),
            }
        )
        for name, count in (("a", 300), ("b", 300), ("c", 40))
    }


QUERIES = {
    "narrow last": f"a JOIN b ON {WIDE} JOIN c ON {NARROW}",
    "narrow first": f"c JOIN b ON {NARROW} JOIN a ON {WIDE}",
    "apart": f"a JOIN c ON c.t BETWEEN a.t AND a.t + 9 JOIN b ON {NARROW} AND {WIDE}",
    "where": f"a JOIN b ON {WIDE} JOIN c ON {NARROW} WHERE a.id > c.id AND b.x > 7",
    "outer": f"a LEFT JOIN b ON {WIDE} LEFT JOIN c ON {NARROW}",
}


@pytest.mark.parametrize("name", QUERIES)
def test_rows_do_not_depend_on_the_order(name: str) -> None:
    given = tables()
    query = f"SELECT a.id AS a, b.id AS b, c.id AS c, a.x + c.x AS x FROM {QUERIES[name]}"
    found = penstock.sql(query, given, time=TIME)
    with duckdb.connect() as database:
        for table, rows in given.items():
            database.register(table, rows)
        wanted = database.sql(query).to_arrow_table()
    # A sum of two BIGINT has more bits than one.
    wanted = wanted.set_column(3, "x", wanted["x"].cast(found["x"].type))
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
    assert found.num_rows > 1


@pytest.mark.parametrize(
    ("name", "first"),
    [("narrow last", "bc"), ("narrow first", "bc"), ("apart", "ac"), ("outer", "ab")],
)
def test_the_join_with_the_fewest_pairs_comes_first(name: str, first: str) -> None:
    told = []
    run_parts(
        f"SELECT a.id AS a, b.id AS b, c.id AS c FROM {QUERIES[name]}",
        tables(),
        QueryOptions(time=TIME),
        lambda text, given, options: penstock.sql(text, given, time=options.time),
        QueryError("it has no parts"),
        lambda part, reads, calls: told.append(part),
    )
    joins = [set(part.reads) for part in told if isinstance(part, Joined)]
    assert joins[0] == set(first)
    assert len(joins) == 2
