"""Groups of one table by ``penstock.sql``, against DuckDB."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import DataError, QueryError
from penstock.host.workers.here import GroupedTable
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_select
from tests.host.grouping.kit import make_case
from tests.kit.effort import effort

TABLE = pa.table({"k": [1, 1, 2], "x": [10, 20, 30], "t": pa.array([0, 5, 12], pa.timestamp("s"))})
COUNT = "SELECT k, count(*) AS n FROM a GROUP BY k"

#: Queries that are refused: text, options, kind, and the remedy in the message.
REFUSED = {
    "ROWS": ("SELECT count(*) FROM a [ROWS 5]", {}, QueryError, "leave them out"),
    "time": (COUNT, {"time": {"a": "u"}}, QueryError, "time: unknown column u in a"),
    "another's time": (COUNT, {"time": {"b": "t"}}, QueryError, "time is given for b"),
    "session": (
        "SELECT session_window(t, '10 seconds') AS s, count(*) FROM a GROUP BY k",
        {},
        QueryError,
        "a session is not one value: group by session_window",
    ),
    "no key": ("SELECT x, count(*) FROM a GROUP BY k", {}, QueryError, "x is neither a key"),
    "three tables": ("SELECT 1 FROM a, b, c", {}, QueryError, "unknown table b"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_remedy(name):
    text, options, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message.replace("(", r"\(")):
        penstock.sql(text, {"a": TABLE}, **options)


def test_values_that_break_a_promise():
    with pytest.raises(DataError, match="overflows"):
        penstock.sql("SELECT sum(x) AS s FROM a", {"a": pa.table({"x": [2**62, 2**62, 2**62]})})
    with pytest.raises(DataError):
        penstock.sql("SELECT sum(CAST(x AS TINYINT)) AS s FROM a", {"a": pa.table({"x": [1000]})})
    with pytest.raises(DataError, match="declared with 1 decimal digits"):
        penstock.sql(
            "SELECT sum(x) AS s FROM a", {"a": pa.table({"x": [0.5, 0.25]})}, scale={"a.x": 1}
        )


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT k AS v FROM a", [1, 1, 2]),
        ("SELECT xs AS v FROM a GROUP BY xs ORDER BY xs", [[1], [2]]),
        (
            "SELECT count(*) AS v FROM a GROUP BY window(t, '10 seconds', '5 seconds') ORDER BY v",
            [1, 1, 2, 2],
        ),
    ],
)
def test_what_a_database_runs(text, rows):
    table = TABLE.append_column("xs", pa.array([[1], [2], [2]]))
    assert penstock.sql(text, {"a": table})["v"].to_pylist() == rows


@pytest.mark.parametrize("seed", range(effort(1000, 40)))
def test_random_queries(seed):
    case = make_case(seed, (200, 30, 1, 0)[seed % 4])
    case.check(penstock.sql(case.text, {"g": case.table}, time=case.time or None))


def test_rows_without_a_time_are_in_no_window_and_a_key_like_any_other_elsewhere():
    table = pa.table({"t": pa.array([0, None, 61], pa.timestamp("s")), "x": [1, 2, 3]})
    windows = penstock.sql(
        "SELECT window.start AS w, sum(x) AS s FROM a GROUP BY window(t, '1 minute')", {"a": table}
    )
    assert windows["s"].to_pylist() == [1, 3]
    minutes = penstock.sql(
        "SELECT date_trunc('minute', t) AS w, sum(x) AS s FROM a GROUP BY 1", {"a": table}
    )
    assert sorted(minutes["s"].to_pylist()) == [1, 2, 3]
    assert None in minutes["w"].to_pylist()


def test_a_window_over_another_column_than_the_time():
    table = pa.table({"t": [0, 1, 2], "u": [5, None, 25], "x": [1, 2, 4]})
    found = penstock.sql(
        "SELECT window.start AS w, sum(x) AS s FROM a GROUP BY window(u, 10)",
        {"a": table},
        time={"a": "t"},
    )
    assert sorted(found["s"].to_pylist()) == [1, 4]


def test_no_rows():
    empty = TABLE.slice(0, 0)
    assert penstock.sql(COUNT, {"a": empty}).num_rows == 0
    one = penstock.sql("SELECT count(*) AS n, sum(x) AS s FROM a", {"a": empty})
    assert one.to_pylist() == [{"n": 0, "s": None}]


def test_parameters_and_names_in_any_case():
    found = penstock.sql(
        "SELECT K, COUNT(*) AS n FROM A WHERE X > least GROUP BY K",
        {"a": TABLE},
        params={"least": 15},
    )
    assert sorted(found["n"].to_pylist()) == [1, 1]


def test_output_columns_keep_their_types():
    table = pa.table(
        {
            "c": pa.array(["x"]).dictionary_encode(),
            "d": pa.array([86_400_000], pa.date64()),
            "s": pa.array([1], pa.int16()),
        }
    )
    found = penstock.sql("SELECT c, max(d) AS d, min(s) AS s FROM a GROUP BY c", {"a": table})
    assert found.schema.types == [pa.string(), pa.date64(), pa.int16()]


def test_recorded_jobs_by_the_minute():
    folder = os.environ.get("PENSTOCK_DATA")
    if folder is None:
        pytest.skip("PENSTOCK_DATA names no folder with the real streams")
    wanted = json.loads((Path(folder) / "expected.json").read_text(encoding="utf-8"))["G2"]
    jobs = pq.read_table(Path(folder) / "gjobs.parquet")
    found = penstock.sql(
        "SELECT event, sched_class, window(t_us, '60 seconds').start AS w, count(*) AS n FROM g "
        "GROUP BY event, sched_class, window(t_us, '60 seconds')",
        {"g": jobs},
        time={"g": "t_us:us"},
    )
    assert found.num_rows == wanted["matches"]
    assert max(found["n"].to_pylist()) == wanted["max_count"]
    with duckdb.connect() as connection:
        connection.register("jobs", jobs)
        other = connection.sql(
            "SELECT event, sched_class, t_us // 60000000 * 60000000 AS w, count(*) AS n FROM jobs "
            "GROUP BY ALL"
        ).to_arrow_table()
    keys = [(name, "ascending") for name in ("event", "sched_class", "w")]
    assert found.sort_by(keys).to_pydict() == other.sort_by(keys).to_pydict()


def test_reports_come_from_any_thread_while_rows_are_folded():
    query = compile_select("SELECT k, count(*) AS n FROM a GROUP BY k", {"a": TABLE.schema})
    assert isinstance(query, GroupQuery)
    groups = GroupedTable(query, TABLE.schema, TABLE.to_batches(max_chunksize=1))
    before = groups.report()
    found = pa.Table.from_batches(groups, groups.schema)
    after = groups.report()
    assert (before.arrived, before.rows) == ({"a": 0}, 0)
    assert (after.arrived, after.rows) == ({"a": 3}, found.num_rows)
    assert after.groups is not None
