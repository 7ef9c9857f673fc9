"""The nearest, the latest and ranked rows of streams: those that DuckDB finds in tables."""

from __future__ import annotations

from datetime import timedelta

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError

ROWS = 240
NEAR = "b.t BETWEEN a.t - INTERVAL 20 SECOND AND a.t + INTERVAL 10 SECOND"
PAST = "b.t BETWEEN a.t - INTERVAL 30 SECOND AND a.t"
UNIQUE = {"a": "id"}


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.choice(1_000_000, ROWS, replace=False)) * 1000
    return pa.table(
        {
            "id": rng.permutation(ROWS),
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            "k": rng.integers(0, 5, ROWS),
            "x": rng.permutation(ROWS * 4)[:ROWS],
        }
    )


TABLES = {"a": rows(1), "b": rows(2)}


def lateral(kind: str, count: int, condition: str = NEAR) -> str:
    inner = (
        f"SELECT b.id AS j, abs(a.x - b.x) AS d FROM b WHERE {condition} "
        f"ORDER BY abs(a.x - b.x), b.id LIMIT {count}"
    )
    return f"SELECT a.id AS i, n.j, n.d {kind.replace('*', f'LATERAL ({inner}) n')}"


RANKED = (
    "row_number() OVER (PARTITION BY a.id ORDER BY abs(a.x - b.x), b.id) AS r FROM a {kind} JOIN b "
    f"ON {NEAR}"
)
QUERIES = {
    "nearest": lateral("FROM a CROSS JOIN *", 1),
    "three nearest": lateral("FROM a, *", 3),
    "latest that is so": (
        "SELECT a.id AS i, b.id AS j FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t WHERE b.x > a.x"
    ),
    "64 nearest, all kept": lateral("FROM a LEFT JOIN * ON TRUE", 64),
    "nearest of a key": lateral("FROM a LEFT JOIN * ON TRUE", 2, f"{NEAR} AND a.k = b.k"),
    "with other conditions": f"{lateral('FROM a JOIN * ON TRUE', 2)} WHERE n.d > 7 AND a.x > 100",
    "row_number": (
        f"SELECT * FROM (SELECT a.id AS i, b.id AS j, {RANKED.format(kind='')}) q WHERE r <= 3"
    ),
    "row_number, all kept": (
        "SELECT i, CAST(j * 2 AS BIGINT) AS j FROM "
        f"(SELECT a.id AS i, b.id AS j, {RANKED.format(kind='LEFT')}) q "
        "WHERE r < 3"
    ),
    "qualify": (
        f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {NEAR} "
        "QUALIFY rank() OVER (PARTITION BY a.id ORDER BY b.x) <= 2"
    ),
    "sums": (
        "SELECT a.id AS i, b.id AS j, max(b.x) OVER (PARTITION BY a.id ORDER BY b.t, b.id) AS s, "
        f"count(*) OVER (PARTITION BY a.id) AS n FROM a JOIN b ON {NEAR}"
    ),
    "of minutes": (
        "SELECT a.id AS i, b.id AS j, row_number() OVER (PARTITION BY date_trunc('minute', a.t), "
        f"a.k ORDER BY a.id, b.id) AS n FROM a JOIN b ON {NEAR}"
    ),
    "latest": ("SELECT a.id AS i, b.id AS j FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t"),
    "latest, all kept": (
        "SELECT a.id AS i, b.id AS j, b.x FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.t < a.t"
    ),
    "next": "SELECT a.id AS i, b.id AS j FROM a ASOF JOIN b ON a.t <= b.t AND a.k = b.k",
    "latest, using": "SELECT a.id AS i, b.id AS j FROM a ASOF JOIN b USING (k, t)",
}


def plain(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def of_duckdb(query: str) -> pa.Table:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name, table in TABLES.items():
            database.register(name, table)
        return database.sql(query).to_arrow_table()


def of_streams(query: str, unique: dict[str, str] | None, **options) -> tuple[int, pa.Table]:
    schemas = {name: table.schema for name, table in TABLES.items()}
    found = []
    with penstock.stream(query, schemas, unique=unique, **options) as stream:
        for first in range(0, ROWS, 20):
            for name, table in TABLES.items():
                stream.push(name, table.slice(first, 20))
            found.append(stream.poll())
        early = sum(part.num_rows for part in found)
        found.append(stream.close())
    return early, pa.concat_tables(found)


@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_those_of_duckdb(name: str) -> None:
    wanted = of_duckdb(QUERIES[name])
    early, found = of_streams(QUERIES[name], UNIQUE)
    assert plain(found) == plain(wanted)
    assert wanted.num_rows > ROWS // 3
    if name != "next":  # which a later row may still come nearer to, for ever
        assert early > wanted.num_rows // 2


def test_the_latest_within() -> None:
    """``within`` lets rows expire, and a latest row that is older is none."""
    query = QUERIES["latest, all kept"]
    wanted = of_duckdb(
        "SELECT a.id AS i, b.id AS j, b.x FROM a LEFT JOIN b ON a.k = b.k AND b.t < a.t "
        "AND b.t >= a.t - INTERVAL 15 SECOND QUALIFY row_number() OVER "
        "(PARTITION BY a.id ORDER BY b.t DESC) = 1"
    )
    found = of_streams(query, UNIQUE, within=timedelta(seconds=15))[1]
    assert plain(found) == plain(wanted)
    assert None in found["j"].to_pylist()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (QUERIES["nearest"], "unique={'a': 'id'}"),
        (QUERIES["latest"], "unique={'a': 'id'}"),
        (QUERIES["qualify"], "QUALIFY needs all rows"),
        (QUERIES["row_number"], "a window function needs all rows"),
    ],
)
def test_pairs_of_which_it_is_not_known_that_they_are_complete(query: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        of_streams(query, None)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.id, row_number() OVER (PARTITION BY a.id ORDER BY b.id) AS r, "
        f"row_number() OVER (ORDER BY b.id) AS s FROM a JOIN b ON {NEAR}",
        "SELECT a.id, row_number() OVER (PARTITION BY b.id ORDER BY a.id) AS r "
        f"FROM a JOIN b ON {NEAR}",
        f"SELECT DISTINCT a.id, count(*) OVER (PARTITION BY a.id) AS r FROM a JOIN b ON {NEAR}",
        f"SELECT count(*) AS n FROM (SELECT a.id, {RANKED.format(kind='')}) q",
        "SELECT i, sum(r) OVER (ORDER BY i) AS n "
        f"FROM (SELECT a.id AS i, {RANKED.format(kind='')}) q",
    ],
)
def test_windows_over_more_than_the_pairs_of_a_row(query: str) -> None:
    with pytest.raises(QueryError):
        of_streams(query, UNIQUE)
