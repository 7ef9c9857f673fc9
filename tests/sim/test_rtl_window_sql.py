"""ROWS queries through the window-join operator of the rtl device, by the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.main import _status
from penstock.errors import MissingToolError
from penstock.sim.verilated.compile_kernel import Tools

try:
    Tools.find()
except MissingToolError as cause:
    pytestmark = pytest.mark.skip(reason=str(cause))

DATA = os.environ.get("PENSTOCK_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="PENSTOCK_DATA names no folder of streams")

#: Rows of each side, and of its window, of the queries on real streams.
COUNT, ROWS = 5_000, 256

#: Squares of distances, and half the side of the box that is asked for instead: the operator has no
#: general form. None where the query's predicate is in band form as it is.
CIRCLES = {
    "U3": (10_000, 100),
    "A2": (85_747_600, 9_260),
    "F3": None,
}

#: Builds that tests/host/test_window_join.py has, too.
SMALL = ("--device", "rtl", "--operator", "window", "--rows-depth", "16", "--banks", "1")


@pytest.fixture
def sql(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Runs ``penstock sql``; its rows, sorted, and its counts."""

    def run(*arguments: str) -> tuple[pa.Table, dict]:
        out, stats = tmp_path / "out.parquet", tmp_path / "stats.json"
        line = ["penstock", "sql", *arguments, "--out", str(out), "--stats", str(stats)]
        monkeypatch.setattr("sys.argv", line)
        status = _status()
        assert status == 0, capfd.readouterr().err
        table = pq.read_table(out)
        order = [(name, "ascending") for name in table.column_names]
        return table.sort_by(order), json.loads(stats.read_text())

    return run


def small_tables(folder: Path, count: int = 150) -> list[str]:
    """Options for two tables with ties in time, within and across sides, and NULLs."""
    for name, step in (("a", 7), ("b", 11)):
        x = [k * step % 23 for k in range(count)]
        y = [None if k % 13 == 5 else k * step % 5 for k in range(count)]
        t = [k // (2 if name == "a" else 3) for k in range(count)]
        pq.write_table(
            pa.table({"id": range(count), "t": t, "x": x, "y": y}), folder / f"{name}.parquet"
        )
    tables = [f"--table={name}={folder / name}.parquet" for name in "ab"]
    return [*tables, "--time=a=t", "--time=b=t"]


@pytest.mark.parametrize("rows", ["16", "a=3,b=14"])
def test_same_rows_as_range_joins(tmp_path: Path, sql, rows: str) -> None:
    query = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON abs(a.x - b.x) <= 2 AND a.y = b.y"
    common = [query, *small_tables(tmp_path), f"--rows={rows}"]
    wanted, counts = sql(*common, "--device", "cpu")
    found, own = sql(*common, *SMALL)
    assert wanted.num_rows > 50
    assert found.equals(wanted)
    for name in ("rows", "pairs_in_window"):
        assert own[name] == counts[name]
    # Range joins may leave out rows whose keys are NULL.
    assert own["pairs_evaluated"] == own["pairs_in_window"] >= counts["pairs_evaluated"]
    sizes = (16, 16) if rows == "16" else (3, 14)
    assert (counts["operator"], own["operator"]) == ("range", "window")
    assert (own["rows_a"], own["rows_b"], own["banks"], own["depth"]) == (*sizes, 1, 16)
    assert own["tuples"] == 300
    assert own["results"] == own["rows"]
    assert own["cycles"] > 150 * (max(sizes) + 2)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", CIRCLES)
def test_real_streams(tmp_path: Path, sql, name: str) -> None:
    """The first 5,000 rows of each side, ROWS 256: the rows of the cpu device."""
    folder = Path(DATA or "")
    query = json.loads((folder / "queries.json").read_text())[name]
    on, where = query["on"], query["where"]
    if CIRCLES[name] is not None:
        square, side = CIRCLES[name]
        distance = [f"(r.{c} - s.{c}) * (r.{c} - s.{c})" for c in ("x_m", "y_m")]
        circle = f"{distance[0]} + {distance[1]} <= {square}"
        assert circle in on
        on = on.replace(
            circle, " AND ".join(f"abs(r.{c} - s.{c}) <= {side}" for c in ("x_m", "y_m"))
        )
    for side in "rs":
        own = [part for part in where.split(" AND ") if f"{side}." in part] or ["true"]
        file = f"read_parquet('{folder / query[side]}.parquet', file_row_number=true)"
        kept = duckdb.sql(
            f"SELECT * FROM {file} AS {side} WHERE {' AND '.join(own)} "
            f"ORDER BY {query['time']}, file_row_number LIMIT {COUNT}"
        )
        pq.write_table(kept.arrow().read_all(), tmp_path / f"{side}.parquet")
    arguments = [
        f"SELECT r.id AS r_id, s.id AS s_id FROM r JOIN s ON {on}"
        + (f" WHERE {where}" if where else ""),
        *(f"--table={side}={tmp_path / side}.parquet" for side in "rs"),
        *(f"--time={side}={query['time']}" for side in "rs"),
        f"--rows={ROWS}",
    ]
    wanted, counts = sql(*arguments, "--device", "cpu")
    found, own = sql(
        *arguments, "--device", "rtl", "--operator", "window", f"--rows-depth={ROWS}", "--banks=4"
    )
    assert wanted.num_rows > 0
    assert own["tuples"] == 2 * COUNT
    assert found.equals(wanted)
    for key in ("rows", "pairs_in_window"):
        assert own[key] == counts[key]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows=17"], "its queues hold 16 rows, fewer than 17"),
        (["--rows=4", "--no-band"], "in general form"),
        (["--within=5"], "the window operator, which is for ROWS windows"),
    ],
)
def test_refusals(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    query = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON abs(a.x - b.x) <= 2 AND a.y = b.y"
    line = ["penstock", "sql", query, *small_tables(tmp_path, 5), *arguments, *SMALL]
    monkeypatch.setattr("sys.argv", line)
    assert _status() != 0
    assert message in capfd.readouterr().err
