"""Joins of tables: what is refused, counted and reported."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import penstock
from penstock.errors import DataError, QueryError, UsageError
from penstock.host.device.registry import open_device
from penstock.host.join.table.operator_join import OperatorJoin
from penstock.host.join.table.table_join import TableJoin
from penstock.query import compile_query

A = pa.table({"t": [5, 1, 3], "x": [0, 1, 2]})
B = pa.table({"t": [2, 4], "x": [1, 2]})
TEXT = "SELECT a.t AS a, b.t AS b FROM a JOIN b ON abs(a.t - b.t) <= 1 AND a.x <= b.x"
TIME = {"a": "t", "b": "t"}


def joined(**options) -> list:
    found = penstock.sql(TEXT, {"a": A, "b": B}, time=TIME, **options)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_rows_in_any_order() -> None:
    assert joined() == [(1, 2), (3, 4), (5, 4)]


def test_a_declared_disorder_is_checked() -> None:
    assert joined(disorder=4) == joined()
    with pytest.raises(DataError, match="a has 2 rows further out of order than the declared"):
        joined(disorder={"a": 1})
    with pytest.raises(DataError, match="declared disorder of 3: row 1 is 4 behind"):
        joined(disorder=3)
    with pytest.raises(UsageError, match="disorder is given for q, but the query joins a and b"):
        joined(disorder={"q": 1})
    with pytest.raises(UsageError, match="plain integer; give disorder as an integer"):
        joined(disorder=datetime.timedelta(seconds=1))


def test_a_declared_unit_takes_durations() -> None:
    tables, time = {"a": A, "b": B}, {"a": "t:ms", "b": "t:ms"}
    four = datetime.timedelta(milliseconds=3, microseconds=1)  # rounds up to what is there
    assert penstock.sql(TEXT, tables, time=time, disorder=four).num_rows == len(joined())
    with pytest.raises(DataError, match="declared disorder of 3"):
        penstock.sql(TEXT, tables, time=time, disorder=datetime.timedelta(milliseconds=3))


def test_counts_and_progress() -> None:
    seen = []
    query = compile_query(TEXT, {"a": A.schema, "b": B.schema}, time=TIME)
    with open_device("cpu") as device:
        join = TableJoin(
            query, {"a": A, "b": B}, device, on_progress=lambda *counts: seen.append(counts)
        )
        rows = sum(batch.num_rows for batch in join)
    assert join.pairs_in_window == join.stats.pairs_in_window == 4
    assert rows == join.stats.rows == 3
    assert seen[-1] == (join.stats.pairs_evaluated, 4)
    assert join.stats.as_dict()["device"] == "cpu"


def test_the_window_operator_refuses_other_queries() -> None:
    """Before it reads a row: there are no tables."""
    schemas = {"a": A.schema, "b": B.schema}
    counted = compile_query("SELECT count(*) AS n FROM a, b WHERE a.t = b.t", schemas, time=TIME)
    pairs = compile_query("SELECT a.x AS x FROM a, b WHERE a.t = b.t", schemas, time=TIME)
    with open_device("cpu") as device:
        with pytest.raises(QueryError, match="the window operator gives pairs"):
            OperatorJoin(counted, {}, device)
        with pytest.raises(QueryError, match="the window operator is for ROWS windows"):
            OperatorJoin(pairs, {}, device)


def test_rows_need_a_time_in_tables() -> None:
    with pytest.raises(QueryError, match="name the time column of both tables with time"):
        penstock.sql("SELECT 1 AS x FROM a, b WHERE a.x = b.x", {"a": A, "b": B}, rows=3)


def test_times_that_need_more_than_64_bits() -> None:
    early = pa.table({"ts": pa.array([-(1 << 62)], pa.timestamp("s"))})
    fine = pa.table({"ts": pa.array([0], pa.timestamp("ns"))})
    with pytest.raises(DataError, match="a time of a needs more than 64 bits"):
        penstock.sql("SELECT 1 AS x FROM a, b WHERE a.ts = b.ts", {"a": early, "b": fine})


def test_a_prefix_works_in_every_direction() -> None:
    words = {"a": pa.table({"t": [1], "s": ["abc"]}), "b": pa.table({"t": [1], "s": ["ab"]})}
    text = "SELECT a.s FROM a JOIN b ON a.t = b.t AND {}"
    for condition, rows in (("startswith(a.s, b.s)", 1), ("startswith(b.s, a.s)", 0)):
        assert penstock.sql(text.format(condition), words, time=TIME).num_rows == rows
    both = "startswith(a.s, b.s) AND startswith(b.s, a.s)"
    assert penstock.sql(text.format(both), words, time=TIME).num_rows == 0
    either = "(startswith(a.s, b.s) OR startswith(b.s, a.s))"
    assert penstock.sql(text.format(either), words, time=TIME).num_rows == 1
