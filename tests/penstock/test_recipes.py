"""The recipes of docs/sql.md run as they stand, with DuckDB's rows."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
import sqlglot

import penstock
from tests.penstock.kit.people import counted, every_table

TEXT = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
_, _, RECIPES = TEXT.partition("## Recipes")
RECIPES, _, _ = RECIPES.partition("\n## ")
NAMED = dict(re.findall(r"\*\*(.+?)\*\*.*?```sql\n(.*?)```", RECIPES, re.DOTALL))
HAVERSINE = (
    "CREATE MACRO haversine(a, b, c, d) AS 2 * 6371008.8::DOUBLE * asin(sqrt("
    "pow(sin((radians(c) - radians(a)) / 2), 2) + cos(radians(a)) * cos(radians(c)) * "
    "pow(sin((radians(d) - radians(b)) / 2), 2)))"
)


def test_there_are_twelve():
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
        (text,) = sqlglot.transpile(NAMED[name], read="spark", write="duckdb")
        wanted = database.sql(text).to_arrow_table()
    assert counted(found) == counted(wanted)
    assert found.num_rows > 2
