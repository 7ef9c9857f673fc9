"""Names of tables and columns in capitals, in queries that are more than one join."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "t": pa.array([0, 4, 9], pa.timestamp("s")),
        "s": ["x", "Y", "x"],
        "st": [{"x": 1}, {"x": 2}, {"x": 1}],
    }
)
NEAR = "abs(a.t - b.t) <= INTERVAL 5 SECONDS"
QUERIES = {
    "computed": (
        f"SELECT upper(a.s) AS u, b.id FROM l a JOIN r b ON upper(a.s) = upper(b.s) AND {NEAR}"
    ),
    "field": f"SELECT a.id, b.id AS j FROM l a JOIN r b ON a.st.x = b.st.x AND {NEAR}",
    "groups by id": (
        f"SELECT a.id, count(DISTINCT b.s) AS n FROM l a LEFT JOIN r b ON {NEAR} GROUP BY a.id"
    ),
    "groups by time": (
        "SELECT window(a.t, '3 seconds').start AS w, count(DISTINCT b.s) AS n FROM l a "
        f"LEFT JOIN r b ON {NEAR} GROUP BY window(a.t, '3 seconds')"
    ),
    "subquery": (
        f"SELECT a.id, b.id AS j FROM (SELECT * FROM l WHERE lower(s) = 'x') a JOIN r b ON {NEAR}"
    ),
    "nearest": (
        "SELECT a.id, n.j FROM l a, LATERAL (SELECT b.id AS j FROM r b "
        f"WHERE {NEAR} ORDER BY abs(a.id - b.id), b.id LIMIT 2) n"
    ),
    "itself": (
        "SELECT upper(l.s) AS u, o.id FROM l JOIN l o ON upper(l.s) = upper(o.s) "
        "AND o.t BETWEEN l.t AND l.t + INTERVAL 9 SECONDS AND l.id < o.id"
    ),
}
UNIQUE = {"groups by id": {"a": "ID"}, "nearest": {"A": "iD"}}


def spelled(name: str) -> tuple[dict[str, pa.Table], str]:
    """Tables with capitals, and the query with others."""
    table = ROWS.rename_columns(["Id", "T", "S", "St"])
    text = QUERIES[name].replace(" l ", " L ").replace("a.id", "A.iD").replace("b.s", "b.S")
    return {"L": table, "R": table}, text


def plain(table: pa.Table) -> list[str]:
    return sorted(str(list(row.values())) for row in table.to_pylist())


@pytest.mark.parametrize("name", QUERIES)
def test_tables(name):
    tables, text = spelled(name)
    used = {one: table for one, table in tables.items() if one == "L" or " r b" in text}
    lower = {one.lower(): ROWS for one in used}
    wanted = penstock.sql(QUERIES[name], lower)
    assert wanted.num_rows
    assert plain(penstock.sql(text, used)) == plain(wanted)


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "itself"])
def test_streams(name):
    tables, text = spelled(name)
    used = {one: table for one, table in tables.items() if one == "L" or " r b" in text}
    wanted = penstock.sql(QUERIES[name], {one.lower(): ROWS for one in used})
    schemas = {one: table.schema for one, table in used.items()}
    with penstock.stream(text, schemas, unique=UNIQUE.get(name)) as stream:
        for one, table in used.items():
            stream.push(one, table)
        assert plain(stream.close()) == plain(wanted)
