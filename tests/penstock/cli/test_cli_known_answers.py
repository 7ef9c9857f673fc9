"""Real streams with known answers, through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

DATA = os.environ.get("PENSTOCK_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="PENSTOCK_DATA names no folder of streams")

QUERIES = (
    *("U1", "U2", "U3", "A1", "A2", "B1", "B2", "Z1", "Z2"),
    *("F1", "F2", "F3", "F4", "G1", "G3", "S1", "S2", "N2"),
)
#: Most memory of a join, of which the largest here writes 60 million rows.
LIMIT_BYTES = 2 << 30

#: The command line, then the most memory the program ever held, in kilobytes. Not `ru_maxrss`,
#: which a child takes over from the process that started it.
PROGRAM = """
import sys
from penstock.cli.main import _status
status = _status()
(peak,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(peak.split()[1])
sys.exit(status)
"""


def checksum(path: Path) -> tuple[int, int]:
    """Rows, and the checksum that does not depend on their order."""
    rows = total = 0
    for batch in pq.ParquetFile(path).iter_batches(batch_size=1 << 20):
        r, s = (batch.column(k).to_numpy().astype(np.uint64) + np.uint64(1) for k in (0, 1))
        mixed = r * np.uint64(0x9E3779B97F4A7C15) ^ s * np.uint64(0xC2B2AE3D27D4EB4F)
        total += int(mixed.sum(dtype=np.uint64))
        rows += batch.num_rows
    return rows, total % (1 << 64)


#: The others' joins are those of tests/test_known_answers.py, in the short run.
SHORT = ("U3", "Z1")


@pytest.mark.parametrize(
    "name", [pytest.param(q, marks=() if q in SHORT else pytest.mark.slow) for q in QUERIES]
)
def test_count_and_checksum(tmp_path, name):
    folder = Path(DATA or "")
    query = json.loads((folder / "queries.json").read_text())[name]
    expected = json.loads((folder / "expected.json").read_text())[name]
    where = f" WHERE {query['where']}" if query["where"] else ""
    rows = ("--rows", str(query["rows"])) if query["rows"] else ()
    out, stats = tmp_path / "pairs.parquet", tmp_path / "stats.json"
    arguments = [
        "sql",
        f"SELECT r.id AS r_id, s.id AS s_id FROM r JOIN s ON {query['on']}{where}",
        *("--table", f"r={folder / query['r']}.parquet"),
        *("--table", f"s={folder / query['s']}.parquet"),
        *("--time", f"r={query['time']}", "--time", f"s={query['time']}"),
        *("--device", "cpu", "--out", out, "--stats", stats),
        *rows,
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert checksum(out) == (expected["matches"], int(expected["checksum"], 16))
    counts = json.loads(stats.read_text())
    assert counts["rows"] == expected["matches"]
    assert counts["pairs_in_window"] == expected["in_window"]
    assert 0 < counts["pairs_evaluated"] <= expected["in_window"]
    assert int(done.stdout) * 1024 < LIMIT_BYTES
