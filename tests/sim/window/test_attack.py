"""The window-join paper's query (figure 1) on generated packets: joined pairs per port.

``SELECT uec.dstport, COUNT(*) FROM tsukuba[ROWS n], uec[ROWS n] WHERE tsukuba.dstport = uec.dstport
GROUP BY uec.dstport``: the operator joins, and what it joined is counted. DuckDB is the oracle.
"""

import sys

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.main import _status
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.layout import Side
from penstock.sim.window.verilated import Stream, VerilatedJoin
from penstock.sim.workloads import Attack
from tests.kit.effort import effort
from tests.sim.window.test_verilated import BUILDS, pytestmark  # noqa: F401

#: Ports of 16 bits in 128 and in 65,536 slots, 64 banks.
SMALL, LARGE = BUILDS["64 banks"][0], WindowConfig(depth=1 << 16, banks=64, key_bits=16)

#: Pairs of the latest tuples, a tuple with those before it. ``place`` is the order of all tuples.
ORACLE = """
    WITH arrivals AS (
        SELECT 0 AS side, place, dstport FROM tsukuba
        UNION ALL SELECT 1, place, dstport FROM uec
    ), counted AS (
        SELECT *, count(*) FILTER (side = 0) OVER upto AS a,
            count(*) FILTER (side = 1) OVER upto AS b
        FROM arrivals WINDOW upto AS (ORDER BY place)
    )
    SELECT u.dstport, count(*) FROM counted t JOIN counted u
    ON t.side = 0 AND u.side = 1 AND t.dstport = u.dstport AND CASE
        WHEN t.place < u.place THEN t.a > u.a - {rows} AND u.place >= {first}
        ELSE u.b > t.b - {rows} AND t.place >= {first}
    END GROUP BY u.dstport
"""


def oracle(tables, rows, first=0):
    """Pairs per port of which the later tuple has at least this place."""
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        return dict(db.sql(ORACLE.format(rows=rows, first=first)).fetchall())


def operator(config, tables, rows, history=0):
    """Pairs per port by the operator, the tables with the places that it gave their rows, and the
    first place of a tuple that it matched. Rows of the history fill the windows only."""
    fill = 4 * history + 50 if history else 0
    streams = {}
    for side, table in zip(Side, tables.values(), strict=True):
        count = table.num_rows
        due = np.where(np.arange(count) < history, 2 * np.arange(count), fill)
        columns = {"key": table["dstport"].to_numpy(), "payload": np.arange(count)}
        streams[side] = Stream(due, columns)
    tuples = sum(table.num_rows for table in tables.values())
    limit = fill + tuples * (config.round_cycles(rows, rows) + rows // 8)
    out = VerilatedJoin(config).run(
        streams, rows=(rows, rows), limit=limit, room=tuples * rows // 8, fill=fill
    )
    assert out.finished
    order = out.order()
    assert len(order) == tuples
    placed = {}
    for (name, table), side in zip(tables.items(), Side, strict=True):
        place = np.empty(table.num_rows, np.int64)
        for at, (whose, index) in enumerate(order):
            if whose is side:
                place[index] = at
        placed[name] = table.append_column("place", pa.array(place))
    ports = tables["uec"]["dstport"].to_numpy()[out.b.astype(np.int64)]
    found, counts = np.unique(ports, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True)), placed, 2 * history


def suspicious(counts, work):
    """The port under attack has far more pairs than any other."""
    first, second = sorted(counts, key=counts.get, reverse=True)[:2]
    return first == work.port and counts[first] > 5 * counts[second]


def test_rows_100():
    work = Attack(seconds=effort(0.2, 0.1), rate=10_000, begin=0, end=1, share=0.1)
    counts, placed, _ = operator(SMALL, work.tables(), 100)
    assert counts == oracle(placed, 100)
    assert sum(counts.values()) > 1000
    assert suspicious(counts, work)


@pytest.mark.slow
def test_rows_65536():
    """Windows of the size that the paper wants for the detection of an attack, both full."""
    rows, more = LARGE.depth, 500
    work = Attack(seconds=4, rate=20_000, begin=0, end=1)
    tables = {name: table.slice(0, rows + more) for name, table in work.tables().items()}
    assert all(table.num_rows == rows + more for table in tables.values())
    counts, placed, first = operator(LARGE, tables, rows, history=rows)
    assert counts == oracle(placed, rows, first)
    assert sum(counts.values()) > 100_000
    assert suspicious(counts, work)


@pytest.mark.slow
def test_from_the_command_line(tmp_path, monkeypatch, capfd):
    """The query in SQL through device rtl, from files to files."""
    work = Attack(seconds=1, rate=2000, begin=0, end=1, share=0.1)
    files, out = work.write(tmp_path), tmp_path / "joined.parquet"
    line = ["penstock", "sql", work.query(), "--out", str(out), "--rows", "100"]
    for name, file in files.items():
        line += ["--table", f"{name}={file}", "--time", f"{name}=ts"]
    line += ["--device", "rtl", "--operator", "window", "--rows-depth", "128", "--banks", "8"]
    monkeypatch.setattr(sys, "argv", line)
    assert _status() == 0, capfd.readouterr().err
    found = pq.read_table(out)["dstport"].to_numpy()
    ports, counts = np.unique(found, return_counts=True)
    tables = work.tables()
    order = sorted(
        (ts, side, row)
        for side, table in enumerate(tables.values())
        for row, ts in enumerate(table["ts"].cast("int64").to_pylist())
    )
    place = {(side, row): at for at, (_, side, row) in enumerate(order)}
    placed = {
        name: table.append_column(
            "place", pa.array([place[side, row] for row in range(table.num_rows)])
        )
        for side, (name, table) in enumerate(tables.items())
    }
    assert dict(zip(ports.tolist(), counts.tolist(), strict=True)) == oracle(placed, 100)
