"""``penstock sql`` and ``penstock explain`` of groups of one file, and of what its rows look up."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.host.relation import RelationOptions, build

QUERY = (
    "SELECT ad, window(t, '10 seconds').start AS w, count(*) AS n FROM e WHERE kind = 0 "
    "GROUP BY ad, window(t, '10 seconds')"
)
LOOKED_UP = (
    "SELECT c.campaign, window(e.t, '10 seconds').end AS w, count(*) AS n FROM e JOIN c "
    "ON e.ad = c.ad GROUP BY c.campaign, window(e.t, '10 seconds')"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "e.parquet"
    times = pa.array([0, 1, None, 12, 13], pa.timestamp("s"))
    kinds = pa.array([0, 0, 0, 0, 1], pa.int8())
    pq.write_table(pa.table({"ad": [1, 1, 1, 2, 2], "kind": kinds, "t": times}), path)
    return path


@pytest.fixture
def ads(tmp_path: Path) -> str:
    place = str(tmp_path / "ads")
    table = pa.table({"ad": [1, 2], "campaign": ["x", "x"]})
    build(table, place, RelationOptions(key=("ad",))).close()
    return place


def test_prints_groups_and_counts(cli, file):
    out, err, status = cli("sql", QUERY, "--table", f"e={file}")
    assert status == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["1", "1970-01-01", "00:00:00", "2"],
        ["2", "1970-01-01", "00:00:10", "1"],
    ]
    assert "2 groups of 5 rows" in err
    assert "1 row without an event time in none" in err


def test_writes_groups_counts_and_a_trace(cli, file, tmp_path):
    out, stats, trace = (tmp_path / name for name in ("o.parquet", "s.json", "t.json"))
    _, _, status = cli(
        "sql", QUERY, "-t", f"e={file}", "--out", out, "--stats", stats, "--trace", trace
    )
    assert status == 0
    assert pq.read_table(out).to_pydict()["n"] == [2, 1]
    counts = json.loads(stats.read_text())
    assert (counts["rows"], counts["rows_in"], counts["timeless"], counts["filtered"]) == (
        2,
        5,
        1,
        1,
    )
    assert "fold" in trace.read_text()


def test_groups_of_looked_up_rows(cli, file, ads):
    out, err, status = cli("sql", LOOKED_UP, "-t", f"e={file}", "--relation", f"c={ads}")
    assert status == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["x", "1970-01-01", "00:00:10", "2"],
        ["x", "1970-01-01", "00:00:20", "2"],
    ]
    assert "2 groups of 5 rows" in err


def test_a_pipeline_is_of_a_join(cli, file):
    _, err, status = cli("synth", "--sql", QUERY, "-t", f"e={file}")
    assert status == 2
    assert "a pipeline is of a join" in err


def test_explains_one_table(cli, file):
    out, _, status = cli("explain", QUERY, "-t", f"e={file}")
    assert status == 0
    assert "source       e, 5 rows" in out
    assert "filter     e.kind = 0" in out
    assert "by e.ad, window(e.t, 10000 ms); each row is folded into its group" in out
    assert "leave when no later row can have their window(e.t, 10000 ms)" in out
    assert "ad: int64, w: timestamp[ms], n: int64" in out


def test_explains_why_a_stream_is_refused(cli, file):
    out, _, status = cli("explain", "SELECT ad, count(*) FROM e GROUP BY 1", "-t", f"e={file}")
    assert status == 0
    assert "refused: a stream never knows that these groups are complete" in out


def test_explains_groups_of_looked_up_rows(cli, file, ads):
    out, _, status = cli("explain", LOOKED_UP, "-t", f"e={file}", "--relation", f"c={ads}")
    assert status == 0
    assert "by c.campaign, window(e.t" in out
    assert "each pair that the look-up gives is folded into its group" in out
    assert "by key       c.ad = e.ad" in out
