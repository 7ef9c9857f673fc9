"""``penstock sql``: results, counts, and one line for every mistake."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from penstock.cli import row_output
from penstock.cli.top import read
from penstock.host.metrics import exporter
from penstock.host.rows.files import open_writer

WINDOW = "b.t BETWEEN a.t - 10 AND a.t + 10"
JOIN = f"SELECT a.id AS a_id, b.id AS b_id FROM a JOIN b ON abs(a.x - b.x) < 3 AND {WINDOW}"


def arguments(folder: Path, query: str, *more: str | Path) -> list[str | Path]:
    tables = [
        item for name in ("a", "b") for item in ("--table", f"{name}={folder / name}.parquet")
    ]
    return ["sql", query, *tables, "--time", "a=t", "--time", "b=t", *more]


def test_prints_a_table_and_counts(cli, tables):
    out, err, status = cli(*arguments(tables, JOIN))
    assert status == 0
    rows = sorted(tuple(map(int, line.split())) for line in out.splitlines()[1:])
    assert rows == [(0, 0), (1, 1), (2, 2), (4, 3)]
    assert "4 rows; 10 pairs in the window" in err


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_writes_every_format(cli, tables, suffix):
    path = tables / f"out.{suffix}"
    _, _, status = cli(*arguments(tables, JOIN, "--out", path))
    assert status == 0
    read = {
        "parquet": pq.read_table,
        "csv": pacsv.read_csv,
        "arrow": lambda p: pa.ipc.open_file(p).read_all(),
    }[suffix]
    assert sorted(read(path)["a_id"].to_pylist()) == [0, 1, 2, 4]
    assert [p.name for p in tables.iterdir() if "partial" in p.name] == []


def test_reads_csv(cli, tables):
    for name in ("a", "b"):
        table = pq.read_table(tables / f"{name}.parquet").select(["id", "t", "x"])
        pacsv.write_csv(table, tables / f"{name}.csv")
    args = [
        a.replace(".parquet", ".csv") if isinstance(a, str) else a for a in arguments(tables, JOIN)
    ]
    _, err, status = cli(*args)
    assert status == 0
    assert err.startswith("4 rows")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_time_zone(cli, tables, suffix):
    path = tables / f"out.{suffix}"
    query = f"SELECT timestamp'2024-03-10 02:30:00' AS x FROM a JOIN b ON {WINDOW}"
    _, err, status = cli(*arguments(tables, query, "--time-zone", "Mars/Base"))
    assert (status, "there is no time zone 'Mars/Base'" in err) == (2, True)
    zone = ("--time-zone", "America/New_York")
    _, _, status = cli(*arguments(tables, query, *zone, "--out", path))
    assert status == 0
    read = pq.read_table if suffix == "parquet" else pacsv.read_csv
    moments = {moment.astimezone(UTC) for moment in read(path)["x"].to_pylist()}
    assert moments == {datetime(2024, 3, 10, 7, 30, tzinfo=UTC)}
    out, _, status = cli("explain", *arguments(tables, query, *zone)[1:])
    assert status == 0
    assert "time zone" in out
    assert "America/New_York" in out


def test_stats(cli, tables):
    path = tables / "stats.json"
    _, _, status = cli(*arguments(tables, JOIN, "--stats", path))
    assert status == 0
    stats = json.loads(path.read_text())
    assert stats["rows"] == 4
    assert stats["pairs_in_window"] == 10
    assert stats["pairs_evaluated"] <= 10
    assert stats["device"] == "cpu"
    assert stats["seconds"] >= 0


def test_stats_of_narrow_units(cli, tmp_path):
    pytest.importorskip("amaranth", reason="needs the rtl extra")
    rng, files = np.random.default_rng(2), []
    for name in "ab":
        columns = {"id": np.arange(300), "t": np.arange(300), "x": rng.integers(0, 1 << 20, 300)}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        files += ["--table", f"{name}={tmp_path / name}.parquet", "--time", f"{name}=t"]
    query = """SELECT a.id AS i, b.id AS j FROM a JOIN b ON abs(a.x - b.x) < 90000
        AND b.t BETWEEN a.t - 3 AND a.t + 3"""
    path, units = tmp_path / "stats.json", ["--device", "amaranth", "--units", "4"]
    shown = []
    for more in ([], [*units, "--key-bits", "8", "--stats", path]):
        out, err, status = cli("sql", query, *files, *more, "--ordered", "--show", "9999")
        assert status == 0, err
        shown.append(out)
    assert shown[0] == shown[1]
    stats = json.loads(path.read_text())
    assert stats["narrow_bits"] == 8
    assert stats["false_pairs"] > 0
    assert stats["narrow_pairs"] == stats["rows"] + stats["false_pairs"]


def test_stats_of_aggregates_count_each_pair_once(cli, tables):
    path = tables / "stats.json"
    folds = JOIN.replace("a.id AS a_id, b.id AS b_id", "a.id, count(*) AS n, sum(b.x) AS s")
    _, _, status = cli(*arguments(tables, f"{folds} GROUP BY a.id", "--stats", path))
    assert status == 0
    stats = json.loads(path.read_text())
    assert stats["pairs_in_window"] == 10
    assert 10 < stats["pairs_evaluated"] <= 20  # two folds, each without the rows that are NULL


def test_rows_and_params(cli, tables):
    query = "SELECT a.id AS i, b.id AS j FROM a, b WHERE abs(a.x - b.x) < diff"
    out, _, status = cli(*arguments(tables, query, "--rows", "a=2,b=1", "--param", "diff=2"))
    assert status == 0
    assert sorted(line.split() for line in out.splitlines()[1:]) == [
        ["0", "0"],
        ["1", "1"],
        ["4", "3"],
    ]


def test_show_limits_what_is_printed(cli, tables):
    out, _, status = cli(*arguments(tables, JOIN, "--show", "1"))
    assert status == 0
    assert "... 3 more rows" in out


def test_null_and_nan_follow_sql(cli, tables):
    query = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.f = b.f AND {WINDOW}"
    out, _, status = cli(*arguments(tables, query))
    assert status == 0
    rows = sorted(tuple(map(int, line.split())) for line in out.splitlines()[1:])
    # NaN equals NaN, -0.0 equals 0.0 and NULL equals nothing, as in Spark.
    assert rows == [(1, 1), (2, 2), (4, 3)]


def test_empty_and_single_row_tables(cli, tables):
    whole = pq.read_table(tables / "a.parquet")
    for rows in (0, 1):
        pq.write_table(whole.slice(0, rows), tables / "a.parquet")
        _, err, status = cli(*arguments(tables, JOIN))
        assert status == 0
        assert err.startswith(("0 rows;", "1 row;")[rows])


def test_mistakes_of_a_newcomer(cli, tables):
    (tables / "q.sql").write_text(JOIN)
    for query, options, message in (
        (str(tables / "q.sql"), (), f"is a file; write -f {tables}"),
        ("SELECT a.x FROM a JOIN b ON a.x = b.x", ("--within", "180s"), "--time a=COLUMN"),
        ("SELECT roundd(a.x) FROM a", (), "close names are round"),
        ("SELECT haversin(a.x) FROM a", (), "close names are haversine"),
    ):
        _, err, status = cli(*arguments(tables, query)[:6], *options)  # no --time
        assert status != 0
        assert message in err


@pytest.mark.parametrize(
    ("change", "message", "status"),
    [
        ({"JOIN": "NATURAL JOIN"}, "NATURAL JOIN takes no ON", 2),
        ({"abs(": "soundex("}, "function soundex is not supported", 2),
        ({"a.x": "a.y"}, "unknown column y in a", 2),
        ({"a.x - b.x": "a.name - b.x"}, "the difference needs numbers, not string", 2),
        ({"abs(a.x - b.x) < 3": "a.name = b.x"}, "a part of the query cannot be computed", 4),
        ({f" AND {WINDOW}": ""}, "the join has no window; add a time bound", 2),
        ({"SELECT": "SELEC"}, "a query begins with SELECT; this one begins with SELEC", 2),
        ({f" AND {WINDOW}": " AND a.x <"}, "something is missing near `<` (line 1, column", 2),
    ],
)
def test_mistakes_in_the_query(cli, tables, change, message, status):
    query = JOIN
    for old, new in change.items():
        assert old in query
        query = query.replace(old, new, 1)
    _, err, found = cli(*arguments(tables, query, "--out", tables / "out.parquet"))
    assert found == status
    assert err.startswith("penstock: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tables / "out.parquet").exists()


def test_missing_and_broken_files(cli, tables):
    broken = tables / "broken.parquet"
    broken.write_bytes((tables / "a.parquet").read_bytes()[:-20])
    for name, message in (("nope.parquet", "there is no file"), ("broken.parquet", "cannot read")):
        args = [
            f"a={tables / name}" if str(a).startswith("a=") and "parquet" in str(a) else a
            for a in arguments(tables, JOIN)
        ]
        _, err, status = cli(*args)
        assert status == 6
        assert message in err
        assert err.count("\n") == 1


def test_unwritable_output(cli, tables):
    for path, message in (
        (tables / "no" / "out.parquet", "there is no folder"),
        (tables / "out.xyz", "cannot tell the format"),
        (tables, "it is a folder"),
    ):
        _, err, status = cli(*arguments(tables, JOIN, "--out", path))
        assert status == 6
        assert message in err
    _, err, status = cli(*arguments(tables, JOIN, "--stats", tables / "no" / "stats.json"))
    assert status == 6


def test_float_needs_a_scale_in_hardware(cli, tables):
    pytest.importorskip("amaranth", reason="needs the rtl extra")
    on = f"FROM a JOIN b ON abs(a.f - b.f) < 0.5 AND {WINDOW}"
    folded = f"SELECT a.id AS i, count(*) AS n {on} GROUP BY a.id"
    _, err, status = cli(*arguments(tables, folded, "--device", "amaranth"))
    assert status == 5
    assert "scale" in err
    assert err.count("\n") == 1
    query = f"SELECT a.id AS i, b.id AS j {on}"
    _, err, status = cli(
        *arguments(tables, query, "--device", "amaranth", "--scale", "a.f=2", "--scale", "b.f=2")
    )
    assert status == 4
    assert "a.f is declared with 2 decimal digits, but row 2 holds" in err


def test_a_scale_lets_floats_run_in_hardware(cli, tables):
    pytest.importorskip("amaranth", reason="needs the rtl extra")
    query = (
        "SELECT a.id AS i, b.id AS j FROM (SELECT id, t, f FROM a WHERE id < 2) a "
        f"JOIN (SELECT id, t, f FROM b WHERE id < 2) b ON abs(a.f - b.f) < 0.5 AND {WINDOW}"
    )
    for name in ("a", "b"):
        table = pq.read_table(tables / f"{name}.parquet")
        pq.write_table(table.slice(0, 2), tables / f"{name}.parquet")
    scales = ("--scale", "a.f=2", "--scale", "b.f=2")
    found = []
    for device in ("cpu", "amaranth"):
        out, _, status = cli(*arguments(tables, query, "--device", device, *scales))
        assert status == 0
        found.append(sorted(out.splitlines()))
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_disorder_beyond_the_bound(cli, tables):
    _, err, status = cli(*arguments(tables, JOIN, "--disorder", "2"))
    assert status == 4
    assert "b has 1 row further out of order than the declared disorder of 2" in err
    assert "row 2 is 3 behind" in err
    _, _, status = cli(*arguments(tables, JOIN, "--disorder", "3"))
    assert status == 0


def test_unknown_device(cli, tables):
    _, err, status = cli(*arguments(tables, JOIN, "--device", "gpu"))
    assert status == 5
    assert "choose one of amaranth, board, cpu" in err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--rows", "many"), "--rows takes a whole number"),
        (("--within", "soon"), "--within takes a number, or a duration"),
        (("--param", "diff"), "--param takes NAME=VALUE"),
        (("--scale", "f=2"), "scale needs table.column"),
        (("--time", "a=t"), "--time gives a twice"),
        (("--show", "-1"), "--show takes a number of rows"),
    ],
)
def test_mistakes_in_options(cli, tables, option, message):
    _, err, status = cli(*arguments(tables, JOIN, *option))
    assert status == 2
    assert message in err


def test_interrupt_leaves_nothing_behind(program, tmp_path):
    """Ctrl-C in the middle of a long join: one line, status 130, no half-written file."""
    rows = 400_000
    table = pa.table(
        {"t": pa.array(range(rows), pa.int32()), "x": pa.array(range(rows), pa.int32())}
    )
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    query = "SELECT a.x AS i, b.x AS j FROM a JOIN b ON abs(a.x * a.x - b.x * b.t) % 1009 = 3"
    out = tmp_path / "out.parquet"
    running = program(*arguments(tmp_path, query, "--rows", "300000", "--out", out))
    deadline = time.monotonic() + 120
    while not any(p.name.endswith(".partial") for p in tmp_path.iterdir()):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        os.sched_yield()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert err.strip().splitlines()[-1] == "penstock: interrupted; nothing was written"
    assert "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_an_interrupt_that_falls_into_a_callback_comes_again():
    """Python prints what a weak reference's callback raises, and goes on."""
    interrupted = """
import signal, weakref
from penstock.cli import main

class Held: pass

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it

def waits():
    held = Held()
    reference = weakref.ref(held, lambda _: signal.raise_signal(signal.SIGINT))
    del held
    signal.pause()

main.app = lambda **_: waits()
main.run()
"""
    done = subprocess.run(
        [sys.executable, "-c", interrupted], capture_output=True, text=True, timeout=60
    )
    assert (done.stderr, done.returncode) == ("penstock: interrupted; nothing was written\n", 130)


@pytest.mark.slow
def test_as_a_program(program, tables):
    """The console script's own path: results on stdout, one error line, no traceback."""
    good = program(*arguments(tables, JOIN))
    out, err = good.communicate(timeout=120)
    assert good.returncode == 0
    assert out.startswith("a_id")
    bad = program(*arguments(tables, JOIN.replace("a.x", "a.nope")))
    out, err = bad.communicate(timeout=120)
    assert (out, bad.returncode) == ("", 2)
    assert err.startswith("penstock: unknown column nope in a")
    assert err.count("\n") == 1


def test_writes_a_trace(cli, tables):
    path = tables / "trace.json"
    _, _, status = cli(*arguments(tables, JOIN, "--trace", path))
    assert status == 0
    events = json.loads(path.read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = {(tracks[event["tid"]], event["name"]) for event in events if event["ph"] == "X"}
    assert {("cpu-0", "sync"), ("cpu-0 device", "task"), ("output", "write")} <= spans
    _, err, status = cli(*arguments(tables, JOIN, "--trace", tables / "none" / "trace.json"))
    assert status != 0
    assert "trace.json" in err


def test_shows_a_page_while_it_joins(cli, tables, monkeypatch):
    pytest.importorskip("bokeh", reason="needs pip install '.[page]'")
    from penstock.host.page import page as pages

    token = tables / "token"
    token.write_text("0123456789abcdef")
    token.chmod(0o600)
    sent, seen = [], []
    send = pages._Server.send

    def look(path: Path, schema: pa.Schema):
        """Ask for the page at a moment when the join is running."""
        url = f"http://127.0.0.1:{pages._servers[0].port}/?token=0123456789abcdef"
        with urllib.request.urlopen(url, timeout=60) as answer:
            seen.append(answer.status)
        return open_writer(path, schema)

    monkeypatch.setattr(
        pages._Server, "send", lambda self, message: (sent.append(message), send(self, message))
    )
    monkeypatch.setattr(row_output, "open_writer", look)
    options = ["--page", "0", "--page-token-file", token, "--out", tables / "o.csv"]
    _, err, status = cli(*arguments(tables, JOIN, *options))
    assert (status, seen) == (0, [200])
    assert re.search(r"page: http://127.0.0.1:\d+/\?token=, and what \S+/token has", err)
    assert "0123456789abcdef" not in err
    assert sent.pop() == {}  # it tells the page's process to end
    figures = sent[-2]["joins"]["a, b"]  # before the end
    assert figures["values"]["arrived_rows_total"] == {"a": 6, "b": 5}
    assert figures["values"]["rows_total"][""] > 0
    assert {span[1] for message in sent[1:-1] for span in message["joins"]["a, b"]["spans"]}
    assert sent[-1]["ended"] == ["a, b"]
    assert pages._servers == []
    for page, message in (
        ("here:", "takes PORT, or"),
        ("nowhere:x", "HOST:PORT"),
        ("70000", "0 to 65535"),
    ):
        _, err, status = cli(*arguments(tables, JOIN, "--page", page))
        assert status == 2
        assert message in err
    _, err, status = cli(*arguments(tables, JOIN, "--page-token-file", token))
    assert status == 2
    assert "--page-token-file is for --page; add it" in err


def test_serves_metrics_while_it_joins(cli, tables, monkeypatch):
    servers, seen = [], []
    serve_metrics = exporter.serve_metrics

    def serve(*arguments):
        servers.append(serve_metrics(*arguments))
        return servers[-1]

    def look(path: Path, schema: pa.Schema):
        """Read the metrics at a moment when the join is running."""
        seen.append(read(f"http://127.0.0.1:{servers[0].port}/metrics"))
        return open_writer(path, schema)

    monkeypatch.setattr(exporter, "serve_metrics", serve)
    monkeypatch.setattr(row_output, "open_writer", look)
    _, err, status = cli(*arguments(tables, JOIN, "--metrics-port", "0", "--out", tables / "o.csv"))
    assert status == 0
    assert f"penstock top {servers[0].port}" in err
    (joins,) = seen
    assert list(joins) == [""]
    assert joins[""]["arrived_rows_total"] == {"a": 6, "b": 5}
    assert set(joins[""]["lane_parked"].values()) == {0}
