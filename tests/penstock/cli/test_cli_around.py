"""``penstock sql`` and ``explain`` of queries that are more than one join."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from tests.penstock.cli.test_cli_sql import JOIN, arguments

RANKED = f"SELECT concat('a', p.a_id) AS a, p.b_id AS b FROM ({JOIN}) p ORDER BY a DESC LIMIT 3"


def test_prints_what_the_parts_give(cli, tables):
    out, err, status = cli(*arguments(tables, RANKED))
    assert status == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["a4", "3"],
        ["a2", "2"],
        ["a1", "1"],
    ]
    assert "3 rows in" in err


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(("--workers", "2"), marks=pytest.mark.slow),
        pytest.param(("--device", "rtl"), marks=pytest.mark.slow),
        ("--ordered",),
    ],
)
def test_writes_what_the_parts_give(cli, tables, more):
    path = tables / "out.parquet"
    assert cli(*arguments(tables, RANKED, "--out", path, *more))[2] == 0
    assert pq.read_table(path).to_pylist() == [
        {"a": "a4", "b": 3}, {"a": "a2", "b": 2}, {"a": "a1", "b": 1}
    ]  # fmt: skip


def test_explains_who_runs_what(cli, tables):
    out, _, status = cli("explain", *arguments(tables, RANKED)[1:])
    assert status == 0
    heads = [" ".join(line.split()) for line in out.splitlines()]
    heads = [head for head in heads if head.startswith("engine") or head.endswith("a join b")]
    assert heads == ["a join b", "engine Penstock", "rows of a join b", "engine DuckDB"]
    assert "LIMIT 3" in out
    tree = ["rows of a join b, by DuckDB", "└─ a join b, by Penstock", "   ├─ a, a table"]
    assert out.splitlines()[-4:] == [*tree, "   └─ b, a table"]
    assert "probes the window of" in out


@pytest.mark.parametrize("command", ["sql", "explain"])
def test_mistakes_are_those_of_the_whole_query(cli, tables, command):
    text = JOIN.replace("a.x", "a.y") + " ORDER BY a_id"
    _, err, status = cli(command, *arguments(tables, text)[1:])
    assert status == 2
    assert "ORDER BY is not supported" in err or "unknown column a.y" in err
