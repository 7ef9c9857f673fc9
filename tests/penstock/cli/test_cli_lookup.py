"""``penstock sql`` and ``explain`` with a relation in the place of a table."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.host.relation import RelationOptions, build

LEFT = "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id"
NEAR = "SELECT o.id, c.name FROM orders o JOIN customers c ON abs(o.customer - c.id) < 2"


@pytest.fixture
def folder(tmp_path) -> Path:
    customers = pa.table({"id": [1, 2, 2, 5, None], "name": ["a", "b", "c", "d", "e"]})
    orders = pa.table({"id": range(6), "customer": [1, 2, 3, None, 5, 2]})
    build(customers, str(tmp_path / "c.rel"), RelationOptions(key=("id",)))
    pq.write_table(customers, tmp_path / "customers.parquet")
    pq.write_table(orders, tmp_path / "orders.parquet")
    return tmp_path


def arguments(folder: Path, command: str, query: str, *more: str | Path) -> list[str | Path]:
    given = [f"--table=orders={folder / 'orders.parquet'}", f"--relation=customers={folder}/c.rel"]
    return [command, query, *given, *more]


@pytest.mark.parametrize("query", [LEFT, NEAR])
def test_rows_are_those_of_duckdb(cli, folder, query):
    out = folder / "out.parquet"
    _, err, status = cli(*arguments(folder, "sql", query, "--memory", "1MB", "--out", out))
    assert status == 0, err
    text = query
    for name in ("orders", "customers"):
        text = text.replace(f" {name} ", f" '{folder / name}.parquet' ")
    expected = duckdb.sql(text).fetchall()
    found = [tuple(row.values()) for row in pq.read_table(out).to_pylist()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_prints_rows_in_order_and_what_was_looked_up(cli, folder):
    stats = folder / "stats.json"
    out, err, status = cli(*arguments(folder, "sql", LEFT, "--ordered", "--stats", stats))
    assert status == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["id", "name"]
    assert [line[0] for line in lines[1:]] == ["0", "1", "1", "2", "3", "4", "5", "5"]
    assert "8 rows; 6 of o looked up in version 1 of " in err
    counts = json.loads(stats.read_text())
    assert (counts["rows"], counts["hits"], counts["pages"]) == (8, 0, 1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--memory", "1KB"], "memory_bytes is 1,024, and this join needs "),
        (["--memory", "much"], "--memory takes a size such as 256MB, not 'much'"),
        (["--algorithm", "best"], "algorithm is one of auto, meshjoin, hybridjoin, "),
    ],
)
def test_mistakes_are_one_line(cli, folder, more, message):
    _, err, status = cli(*arguments(folder, "sql", LEFT, *more))
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


def test_explain_shows_path_memory_and_hits(cli, folder):
    out, _, status = cli(*arguments(folder, "explain", LEFT, "--memory", "1MB"))
    assert status == 0
    assert "by key       c.id = o.customer" in out
    assert "version      1, 5 rows" in out
    assert "cache 0." in out
    assert "100% at exponent 1 " in out
    out, _, status = cli(*arguments(folder, "explain", NEAR))
    assert status == 0
    assert "by scanning  pages of c: pruned by id" in out


def test_plan_predicts_each_algorithm_and_the_memory_of_a_rate(cli, folder):
    given = ["plan", "--relation", folder / "c.rel", "--memory", "1MB", "--rate", "1000"]
    out, _, status = cli(*given, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["rows"] == 5
    assert report["memory_needed_bytes"] == 1 << 20
    assert all(found["rate"] > 1000 for found in report["algorithms"].values())
    shown, _, _ = cli(*given)
    assert "1,000 rows/s are sustained, at " in shown
    assert "1 MiB are enough for that rate" in shown
    _, err, status = cli(*given, "--zipf", "9")
    assert status == 2
    assert "--zipf must be from 0 to 4, not 9" in err


def test_plan_needs_a_window_or_a_relation(cli):
    _, err, status = cli("plan", "--device", "cpu")
    assert status == 2
    assert "give --window of a join, or --relation" in err


def test_a_relation_beside_a_join(cli, folder):
    """Two, of which one is a part's, and each part is explained."""
    build(pa.table({"name": ["a", "c"], "age": [30, 40]}), str(folder / "a.rel"),
          RelationOptions(key=("name",)))  # fmt: skip
    query = (
        "SELECT o.id, p.id AS other, c.name, a.age FROM orders o JOIN orders p "
        "ON abs(o.customer - p.customer) < 2 AND o.id < p.id AND p.id BETWEEN o.id AND o.id + 3 "
        "JOIN customers c ON c.id = p.customer LEFT JOIN ages a ON a.name = c.name"
    )
    more = [f"--relation=ages={folder / 'a.rel'}", "--time=o=id", "--time=p=id"]
    out, err, status = cli(*arguments(folder, "sql", query, *more, "--memory", "1MB"))
    assert status == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert sorted(lines[1:]) == [
        ["0", "1", "b", "NULL"], ["0", "1", "c", "40"],
        ["2", "5", "b", "NULL"], ["2", "5", "c", "40"],
    ]  # fmt: skip
    out, _, status = cli(*arguments(folder, "explain", query, *more))
    assert status == 0
    assert [line for line in out.splitlines() if line.startswith(("looks up", "by key"))] == [
        "looks up     customers, version 1, 5 rows", "by key       c.id = p.customer",
        "looks up     ages, version 1, 2 rows", "by key       a.name = c.name",
    ]  # fmt: skip
