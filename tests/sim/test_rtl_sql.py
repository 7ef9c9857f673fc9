"""Queries on the Verilated kernel, through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.errors import MissingToolError
from penstock.sim.verilated.compile_kernel import Tools
from tests.kit.effort import effort

try:
    Tools.find()
except MissingToolError as cause:
    pytestmark = pytest.mark.skip(reason=str(cause))

DATA = os.environ.get("PENSTOCK_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="PENSTOCK_DATA names no folder of streams")

#: Rows of each side, from the middle of its file.
ROWS = 20_000  # with 5,000 some query has no rows

QUERIES = (
    *("U1", "U2", "U3", "A1", "A2", "B1", "B2", "Z1", "Z2"),
    *("F1", "F2", "F3", "F4", "G1", "G3", "S1", "S2", "N2"),
)
#: Seconds for one query, most of which may be Verilator and the C++ compiler on a busy machine.
TIMEOUT_S = 1200


def sql(*arguments: str | Path) -> None:
    """Run ``penstock sql``, in the short run in this process; it must succeed."""
    if effort(full=False, short=True):
        ran = CliRunner().invoke(app, ["sql", *map(str, arguments)], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        return
    program = "import sys; from penstock.cli.main import _status; sys.exit(_status())"
    done = subprocess.run(
        [sys.executable, "-c", program, "sql", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("pipelines", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_stats(tmp_path: Path, pipelines: int) -> None:
    """What the kernel counted, summed over all tasks, beside the counts of every device."""
    rows = 200
    for name in "ab":
        table = pa.table({"id": range(rows), "t": range(rows), "x": [k % 7 for k in range(rows)]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    query = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON abs(a.x - b.x) <= 1"
    tables = [f"--table={name}={tmp_path / name}.parquet" for name in "ab"]
    common = [query, *tables, "--time=a=t", "--time=b=t", "--within=10"]
    found = {}
    for device, options in (
        ("cpu", ()),
        ("rtl", ("--units", str(8 // pipelines), "--pipelines", str(pipelines))),
    ):
        out, stats = tmp_path / f"{device}.parquet", tmp_path / f"{device}.json"
        sql(*common, "--device", device, *options, "--out", out, "--stats", stats)
        found[device] = sorted(pq.read_table(out).to_pylist(), key=lambda row: (row["i"], row["j"]))
    counts = json.loads((tmp_path / "rtl.json").read_text())
    assert found["rtl"] == found["cpu"]
    assert counts["rows"] == len(found["cpu"])
    assert counts["device"] == "rtl"
    assert counts["units"] == 8
    assert counts["passes"] >= 1
    assert counts["window_flits"] >= rows
    assert counts["cycles"] > counts["window_flits"]
    assert 0 < counts["records"] <= counts["rows"]
    assert 0 < counts["memory_waits"] < counts["cycles"]
    assert 0 <= counts["admission_stalls"] < counts["cycles"]


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_same_rows_as_the_cpu(tmp_path: Path, name: str) -> None:
    """A slice of real streams: the rtl device delivers what the cpu device does."""
    folder = Path(DATA or "")
    query = json.loads((folder / "queries.json").read_text())[name]
    for side in "rs":
        table = pq.read_table(folder / f"{query[side]}.parquet")
        middle = max(table.num_rows - ROWS, 0) // 2
        pq.write_table(table.slice(middle, ROWS), tmp_path / f"{side}.parquet")
    where = f" WHERE {query['where']}" if query["where"] else ""
    arguments = [
        f"SELECT r.id AS r_id, s.id AS s_id FROM r JOIN s ON {query['on']}{where}",
        *(f"--table={side}={tmp_path / side}.parquet" for side in "rs"),
        *(f"--time={side}={query['time']}" for side in "rs"),
        *([f"--rows={query['rows']}"] if query["rows"] else []),
    ]
    found = {}
    for device in ("cpu", "rtl"):
        out = tmp_path / f"{device}.parquet"
        options = ("--units", "8") if device == "rtl" else ()
        stats = tmp_path / f"{device}.json"
        sql(*arguments, "--device", device, *options, "--out", out, "--stats", stats)
        table = pq.read_table(out)
        found[device] = table.sort_by([("r_id", "ascending"), ("s_id", "ascending")])
    assert found["rtl"].num_rows > 0
    assert found["rtl"].equals(found["cpu"])
    counts = [json.loads((tmp_path / f"{device}.json").read_text()) for device in found]
    for key in ("rows", "pairs_in_window"):
        assert counts[0][key] == counts[1][key]
    # A slower device is spared pairs from fewer on (Pruning.least_pairs).
    for each in counts:
        assert each["pairs_evaluated"] + each["pairs_pruned"] == each["pairs_in_window"]
    assert counts[1]["pairs_evaluated"] <= counts[0]["pairs_evaluated"]
