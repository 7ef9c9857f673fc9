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


def asked(name: str) -> tuple[str, dict[str, pa.Table], dict[str, str]]:
    """A known query with its aggregates, its tables and their time columns."""
    known = json.loads((Path(FOLDER or "") / "queries.json").read_text(encoding="utf-8"))[name]
    tables = {side: slice_of(known[side]) for side in "rs"}
    key, aggregates = AGGREGATES[name]
    where = f" WHERE {known['where']}" if known["where"] else ""
    query = f"SELECT {key}, {aggregates} FROM r JOIN s ON {known['on']}{where} GROUP BY {key}"
    times = dict.fromkeys("rs", known["time"])
    return query, tables, times


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_of_real_streams(name: str) -> None:
    query, tables, times = asked(name)
    got = penstock.sql(query, tables, time=times)
    # DuckDB computes in the columns' own widths; the squares need more.
    wide = {side: _widened(table) for side, table in tables.items()}
    with duckdb.connect() as connection:
        for side, table in wide.items():
            connection.register(side, table)
        wanted = connection.sql(query).fetchall()
    assert got.num_rows > 0
    assert rows_of(got) == sorted(wanted)


SOME = ["F1", *(pytest.param(name, marks=pytest.mark.slow) for name in ("A1", "G1"))]


@pytest.mark.parametrize("name", SOME)
def test_aggregates_of_running_joins(name: str) -> None:
    query, tables, times = asked(name)
    wanted = rows_of(penstock.sql(query, tables, time=times))
    assert rows_of(*streamed(query, tables, times, unique={AGGREGATES[name][0][0]: "id"})) == wanted


@pytest.mark.parametrize("keys", [("s",), ("s", "r")])
@pytest.mark.parametrize("name", SOME)
def test_tumbling_windows_of_real_streams(name: str, keys: tuple[str, ...]) -> None:
    known = json.loads((Path(FOLDER or "") / "queries.json").read_text(encoding="utf-8"))[name]
    tables = {side: slice_of(known[side]) for side in "rs"}
    time = known["time"]
    moments = tables["s"][time].to_numpy()
    size = max(1, int(moments.max() - moments.min()) // 20)
    where = f" WHERE {known['where']}" if known["where"] else ""
    body = f"FROM r JOIN s ON {known['on']}{where}"
    classes = ", ".join(f"{side}.id % 3" for side in keys)
    query = (
        f"SELECT window.start AS w, {classes.replace(', ', ' AS a, ')} AS b, count(*) AS n, "
        f"max(r.id - s.id) AS m {body} GROUP BY window(s.{time}, {size}), {classes}"
    )
    times = dict.fromkeys("rs", time)
    got = penstock.sql(query, tables, time=times)
    with duckdb.connect() as connection:
        for side, table in tables.items():
            connection.register(side, _widened(table))
        wanted = connection.sql(
            f"SELECT s.{time} // {size} * {size} AS w, {classes}, count(*), max(r.id - s.id) "
            f"{body} GROUP BY ALL"
        ).fetchall()
    assert len(wanted) > 10
    assert rows_of(got) == sorted(wanted)
    assert rows_of(*streamed(query, tables, times)) == sorted(wanted)


def rows_of(*parts: pa.Table) -> list[tuple]:
    return sorted(tuple(row.values()) for part in parts for row in part.to_pylist())


def streamed(
    query: str, tables: dict[str, pa.Table], times: dict[str, str], **options: object
) -> list[pa.Table]:
    """What the query gives batch by batch."""
    schemas = {side: table.schema for side, table in tables.items()}
    stream = penstock.stream(query, schemas, time=times, **options)  # type: ignore[arg-type]
    found = []
    for at in range(0, ROWS, 900):
        for side, table in tables.items():
            stream.push(side, table.slice(at, 900))
        found.append(stream.poll())
    assert sum(part.num_rows for part in found) > 0
    found.append(stream.close())
    assert stream.stats.late == {"r": 0, "s": 0}
    return found


def _widened(table: pa.Table) -> pa.Table:
    fields = [f.with_type(pa.int64()) if pa.types.is_integer(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))
