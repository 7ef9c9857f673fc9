"""Real streams that look rows up, through the command line, beside DuckDB's rows."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from tests.host.join.lookup.real import REAL, Tables, needs_data
from tests.kit.effort import effort

pytestmark = needs_data


@pytest.mark.parametrize("join", [pytest.param("inner", marks=pytest.mark.slow), "left"])
@pytest.mark.parametrize("name", list(REAL))
def test_rows_are_those_of_duckdb(cli, tmp_path, name, join):
    tables = Tables(name, tmp_path, effort(1, REAL[name].one_in))
    out, stats = tmp_path / "out.parquet", tmp_path / "stats.json"
    _, err, status = cli(
        *("sql", tables.query(join), "--table", f"s={tables.stream_file}"),
        *("--relation", f"r={tables.place}", "--memory", str(tables.memory_bytes)),
        *("--out", out, "--stats", stats),
    )
    assert status == 0, err
    tables.check(join, pq.read_table(out))
    assert json.loads(stats.read_text())["rows"] == tables.wanted(join).num_rows
