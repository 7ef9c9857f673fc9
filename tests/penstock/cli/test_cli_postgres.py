"""``penstock`` with a table in a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.kit.postgres_server import PostgresServer, served_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with served_postgres() as one:
        one.run(
            "CREATE TABLE customers (id bigint PRIMARY KEY, name text, odd interval)",
            "INSERT INTO customers SELECT g, 'n' || g, NULL FROM generate_series(0, 99) g",
            "ANALYZE customers",
        )
        yield one


@pytest.fixture
def location(server) -> str:
    return server.address("customers", user="postgres:s3cret", max_age="60s")


@pytest.mark.parametrize(("on", "found"), [("o.k = c.id", 3), ("abs(o.k - c.id) < 2", 9)])
def test_sql_and_explain(cli, location, tmp_path, on, found):
    stream, out = tmp_path / "o.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3, 4], "k": [5, 6, 7, 500]}), stream)
    query = f"SELECT o.id, c.name FROM o JOIN c ON {on}"
    given = ("--table", f"o={stream}", "--relation", f"c={location}")
    _, said, status = cli("sql", query, *given, "--out", out)
    assert status == 0, said
    assert pq.read_table(out).num_rows == found
    shown, more, status = cli("explain", query, *given)
    assert status == 0, more
    assert "100 rows" in shown
    assert "s3cret" not in said + shown + more


def test_info(cli, location):
    shown, said, status = cli("relation", "info", location)
    assert status == 0, said
    for text in ('"public"."customers"', "about 100", "by id (an index)", "60 s old at most"):
        assert text in shown
    assert "no like in" in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize("command", [("update", "--compact"), ("check",), ("vacuum",)])
def test_what_only_folders_can_do(cli, location, command):
    name, *options = command
    shown, said, status = cli("relation", name, location, *options)
    assert status == 2
    assert "it is a table in PostgreSQL" in said.replace("\n", " ")
    assert "s3cret" not in shown + said
    _, said, status = cli("plan", "--relation", location)
    assert status == 2
    assert "cannot be planned" in said.replace("\n", " ")
