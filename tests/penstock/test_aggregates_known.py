"""Aggregates over slices of the real streams in PENSTOCK_DATA, against DuckDB on the same SQL."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

FOLDER = os.environ.get("PENSTOCK_DATA")
pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="PENSTOCK_DATA names no folder with the real streams"
)

#: Rows of each slice: DuckDB tests every pair.
ROWS = 8000

#: Band and general form, payloads and values of both sides, either direction.
AGGREGATES = {
    "A1": (
        "s.id",
        "count(*) n, min(abs(r.alt_ft - s.alt_ft)) lowest, sum(r.alt_ft) total, max(r.x_m) x",
    ),
    "F1": ("r.id", "count(*) n, max(s.bid_e5 - r.ask_e5) gain, min(s.ask_e5) ask, sum(r.bid_e5) b"),
    "G1": ("r.id", "count(*) n, min(s.t_us - r.t_us) wait, max(s.t_us) last"),
}


def slice_of(name: str) -> pa.Table:
    return pq.read_table(Path(FOLDER or "") / f"{name}.parquet").slice(0, ROWS)


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_of_real_streams(name: str) -> None:
    known = json.loads((Path(FOLDER or "") / "queries.json").read_text(encoding="utf-8"))[name]
    tables = {side: slice_of(known[side]) for side in "rs"}
    key, aggregates = AGGREGATES[name]
    where = f" WHERE {known['where']}" if known["where"] else ""
    query = f"SELECT {key}, {aggregates} FROM r JOIN s ON {known['on']}{where} GROUP BY {key}"
    got = penstock.sql(query, tables, time=dict.fromkeys("rs", known["time"]))
    # DuckDB computes in the columns' own widths; the squares need more.
    wide = {side: _widened(table) for side, table in tables.items()}
    with duckdb.connect() as connection:
        for side, table in wide.items():
            connection.register(side, table)
        wanted = connection.sql(query).fetchall()
    assert got.num_rows > 0
    assert sorted(tuple(row.values()) for row in got.to_pylist()) == sorted(wanted)


def _widened(table: pa.Table) -> pa.Table:
    fields = [f.with_type(pa.int64()) if pa.types.is_integer(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))
