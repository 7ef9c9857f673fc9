"""Groups of whole tables on workers, from Python and from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import penstock
from penstock import Running
from penstock.cli.main import app
from penstock.cli.top import read, screen
from penstock.errors import UsageError
from tests.host.workers.kit.groups import SCHEMA, batches, comparable, listed, opened, wanted
from tests.kit.effort import effort

QUERY = "SELECT name, count(*) AS n, sum(x) AS s FROM a WHERE x > 0 GROUP BY name"


@pytest.mark.slow
def test_a_table_has_any_keys_and_gives_the_groups_of_one_process() -> None:
    table = pa.Table.from_batches(batches(1, 30, rows=200), SCHEMA)
    alone = penstock.sql(QUERY, {"a": table}, running=Running(ordered=True))
    shared = penstock.sql(QUERY, {"a": table}, running=Running(ordered=True), workers=2)
    assert listed(shared) == listed(alone)
    assert comparable(shared) == wanted(table.to_batches(), QUERY)


def test_the_one_group_of_no_rows_is_given_once() -> None:
    table = pa.Table.from_batches([], SCHEMA)
    text = "SELECT count(*) AS n, sum(x) AS s FROM a"
    found = penstock.sql(text, {"a": table}, workers=effort(3, 2))
    assert found.to_pylist() == [{"n": 0, "s": None}]


def test_a_number_of_workers_is_checked() -> None:
    table = pa.table({"t": [1]})
    with pytest.raises(UsageError, match="workers must be 1 to 4096, not 0"):
        penstock.sql("SELECT t, count(*) AS n FROM a GROUP BY t", {"a": table}, workers=0)


def test_the_shell_groups_a_file_on_workers(tmp_path: Path) -> None:
    keys = np.random.default_rng(0).integers(0, 50, 200_000)
    pq.write_table(pa.table({"k": keys}), tmp_path / "a.parquet")
    stats, trace = tmp_path / "stats.json", tmp_path / "trace.json"
    arguments = ["sql", "SELECT k, count(*) AS n FROM a GROUP BY k", "-t"]
    arguments += [f"a={tmp_path / 'a.parquet'}", "--workers", "2", "--ordered"]
    arguments += ["--out", str(tmp_path / "out.parquet"), "--stats", str(stats)]
    run = CliRunner().invoke(app, [*arguments, "--trace", str(trace)], catch_exceptions=False)
    assert run.exit_code == 0, run.output
    found = pq.read_table(tmp_path / "out.parquet")
    assert found["k"].to_pylist() == sorted(set(keys.tolist()))
    assert found["n"].to_pylist() == np.bincount(keys).tolist()
    assert json.loads(stats.read_text())["rows_in"] == 200_000
    events = json.loads(trace.read_text())["traceEvents"]
    tracks = [one["args"]["name"] for one in events if "name" in one["args"]]
    assert set(tracks) >= {"worker 0", "worker 1"}


@pytest.mark.slow
def test_top_shows_each_worker(tmp_path: Path) -> None:
    with opened(2, checkpoint=tmp_path) as stream, _served(stream) as url:
        stream.push("a", batches(0, 1)[0])
        stream.flush()
        now = read(url)
        text = pa_text(screen(now, now, 1.0))
    (shown,) = [line for line in text.splitlines() if line.startswith("0 ")]
    assert "ago" in shown
    assert sum(now[""]["worker_rows_total"].values()) == 40
    assert now[""]["worker_checkpoint"] == {"0": 1.0, "1": 1.0}
    assert "lane" not in text


class _served:
    """Metrics of a stream, while the block lasts."""

    def __init__(self, stream) -> None:
        self._stream = stream

    def __enter__(self) -> str:
        self._server = self._stream.serve_metrics()
        return f"http://127.0.0.1:{self._server.port}/metrics"

    def __exit__(self, *exc: object) -> None:
        self._server.close()


def pa_text(shown) -> str:
    """What a terminal of 160 columns would show."""
    from rich.console import Console

    console = Console(width=160)
    with console.capture() as taken:
        console.print(shown)
    return taken.get()
