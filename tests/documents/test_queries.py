"""Queries that README and docs show run as they stand; recipes give DuckDB's rows."""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import penstock
from penstock.host.relation import RelationOptions, build
from tests.kit.documents import Block, blocks, pages, text
from tests.penstock.kit.people import counted, every_table

QUERIES = [block for page in pages() for block in blocks(page) if block.language == "sql"]

_, _, RECIPES = text("docs/joins/sql.md").partition("## Recipes")
RECIPES, _, _ = RECIPES.partition("\n## ")
NAMED = dict(re.findall(r"\*\*(.+?)\*\*.*?```sql\n(.*?)```", RECIPES, re.DOTALL))
HAVERSINE = (
    "CREATE MACRO haversine(a, b, c, d) AS 2 * 6371008.8::DOUBLE * asin(sqrt("
    "pow(sin((radians(c) - radians(a)) / 2), 2) + cos(radians(a)) * cos(radians(c)) * "
    "pow(sin((radians(d) - radians(b)) / 2), 2)))"
)


def at(*seconds: int) -> pa.Array:
    return pa.array([1_000_000 * second for second in seconds], pa.timestamp("us"))


#: Of each section with a query: its tables, and the rows that the query gives.
KNOWN = {
    "README.md # Penstock": (
        {
            "orders": {"id": [1, 2], "lon": [0, 900], "lat": [0, 0], "ts": at(0, 0)},
            "gps": {"vehicle": [7, 8], "lon": [499, 1100], "lat": [0, -299], "ts": at(180, 180)},
        },
        [(1, 7), (2, 7), (2, 8)],
    ),
    "docs/joins/sql.md ## Shape": (
        {
            "trades": {"id": [1, 2], "t": [100, 100], "price": [50, 50], "size": [11, 10]},
            "quotes": {"id": [3, 4], "t": [0, 200], "price": [45, 54], "venue": [3, 2]},
        },
        [(1, 3, 5)],
    ),
    "docs/joins/sql.md ## One table": (
        {"ads": {"ad": [1, 1, 2, 1], "kind": [0, 0, 0, 0], "t": at(1, 9, 9, 10)}},
        [(1, at(0)[0].as_py(), 2)],
    ),
    "docs/joins/sql.md ### Sessions": (
        {
            "bids": {"id": [1, 2, 3], "seller": [7, 7, 8], "t": at(0, 40, 0)},
            "sellers": {"id": [7, 7], "t": at(9, 20)},
        },
        [(1, 7), (2, None), (3, None)],
    ),
    "docs/joins/sql.md ## Around a join": (
        {
            "impressions": {"site": ["a", "B"], "t": at(0, 601)},
            "clicks": {"site": ["A", "a", "b"], "usr": [5, 5, 6], "t": at(0, 900, 1502)},
        },
        [("a", at(0)[0].as_py(), 1), ("B", at(600)[0].as_py(), 0)],
    ),
    "docs/joins/sql.md ### Lists, structs and maps": (
        {
            "a": {"id": [1, 2], "pos": [{"x": 3}, {"x": 4}], "t": [0, 0]},
            "b": {
                "pos": [{"x": 3}, {"x": 4}],
                "tags": [["old", "new"], ["old"]],
                "t": [5, 5],
            },
        },
        [(1, {"x": 3}, 0, 3, "old", 2)],
    ),
    "docs/streams/lookup.md ## Beside other joins": (
        {
            "rides": {"id": [1, 2], "x": [0, 900], "y": [0, 0], "zone": [3, 4], "t": at(0, 0)},
            "cabs": {"id": [7, 8], "x": [499, 900], "y": [0, 9], "t": at(120, 60)},
            "zones": {"zone": [3, 4], "name": ["in", "out"], "is_open": [True, False]},
            "drivers": {"cab": [7, 8], "phone": ["555", "777"]},
        },
        [(1, 7, "in", "555"), (2, 7, "out", None), (2, 8, "out", None)],
    ),
}
#: Keys of those of the tables that are relations.
RELATIONS = {"zones": "zone", "drivers": "cab"}
#: Tests with the rows of further ones.
ELSEWHERE = {
    "docs/joins/sql.md ## Recipes": "tests/documents/test_queries.py",
    "docs/joins/sql.md ## Aggregates": "tests/penstock/test_sql_aggregates.py",
    "docs/streams/lookup.md ### As of a version": "tests/penstock/test_as_of.py",
}


def section(block: Block) -> str:
    lines = text(block.page).splitlines()[: block.line]
    return f"{block.page} {next(line for line in reversed(lines) if re.match('#+ ', line))}"


def test_each_query_is_in_a_test():
    assert {section(block) for block in QUERIES} == KNOWN.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("block", [one for one in QUERIES if section(one) in KNOWN], ids=str)
def test_a_query_gives_its_rows(block, tmp_path):
    columns, wanted = KNOWN[section(block)]
    tables: dict = {name: pa.table(table) for name, table in columns.items()}
    for name in tables.keys() & RELATIONS.keys():
        build(tables[name], str(tmp_path / name), RelationOptions(key=(RELATIONS[name],)))
        tables[name] = penstock.relation(str(tmp_path / name))
    time = {"r": "t", "s": "t"} if "- 100 AND" in block.text else None
    rows = penstock.sql(block.text, tables, time=time)
    found = [tuple(row.values()) for row in rows.to_pylist()]
    assert sorted(found, key=str) == sorted(wanted, key=str)


def test_there_are_twelve_recipes():
    assert len(NAMED) == 12


@pytest.mark.parametrize("name", NAMED)
def test_a_recipe_runs(name):
    tables = every_table()
    used = {one.name for one in sqlglot.parse_one(NAMED[name], "spark").find_all(sqlglot.exp.Table)}
    given = {table: rows for table, rows in tables.items() if table in used}
    found = penstock.sql(NAMED[name], given)
    with duckdb.connect() as database:
        database.execute(f"SET TimeZone = 'UTC'; {HAVERSINE}")
        for table, rows in tables.items():
            database.register(table, rows)
        (query,) = sqlglot.transpile(NAMED[name], read="spark", write="duckdb")
        wanted = database.sql(query).to_arrow_table()
    assert counted(found) == counted(wanted)
    assert found.num_rows > 2
