"""Real streams with known answers, from the folder in PENSTOCK_DATA (Parquet and JSON files).

Each query gives its count of rows, a checksum of their ids, and its count of pairs in the window.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.host.device.registry import open_device
from penstock.host.execute.running import Running
from penstock.host.execute.stats import Stats
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.join.table.table_join import TableJoin
from penstock.host.prune.sizes import DEFAULT_PRUNING, Pruning
from penstock.plan.query import JoinQuery
from penstock.query.compiler import compile_query

TIMED = ("U1", "U2", "A1", "B1", "B2", "Z1", "Z2", "F1", "F2", "F4", "G1", "G3", "S1", "S2", "N2")
QUERIES = (*TIMED, "U3", "A2", "F3")
#: Microseconds by which the two network logs are out of order, at most.
LOG_DISORDER = 400_000_000

#: Evaluations of a task of about 10 ms on one core.
TEN_MS = 1 << 27

FOLDER = os.environ.get("PENSTOCK_DATA")
pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="PENSTOCK_DATA names no folder with the real streams"
)


@cache
def facts(name: str) -> dict:
    return json.loads((Path(FOLDER or "") / name).read_text(encoding="utf-8"))


def loaded(name: str, **changed: object) -> tuple[JoinQuery, dict[str, pa.Table]]:
    query = {**facts("queries.json")[name], **changed}
    tables = {side: pq.read_table(Path(FOLDER or "") / f"{query[side]}.parquet") for side in "rs"}
    where = f" WHERE {query['where']}" if query["where"] else ""
    text = f"SELECT r.id AS r_id, s.id AS s_id FROM r JOIN s ON {query['on']}{where}"
    schemas = {side: table.schema for side, table in tables.items()}
    time = dict.fromkeys("rs", query["time"])
    return compile_query(text, schemas, time=time, rows=query["rows"]), tables


class Answer:
    """Count and checksum of rows, in any order."""

    def __init__(self) -> None:
        self.rows = 0
        self.sum = 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        self.rows += batch.num_rows
        r, s = (batch.column(k).to_numpy().astype(np.uint64) + np.uint64(1) for k in (0, 1))
        mixed = r * np.uint64(0x9E3779B97F4A7C15) ^ s * np.uint64(0xC2B2AE3D27D4EB4F)
        self.sum = (self.sum + int(mixed.sum(dtype=np.uint64))) % (1 << 64)

    def check(self, name: str, pairs_in_window: int) -> None:
        wanted = facts("expected.json")[name]
        assert self.rows == wanted["matches"]
        assert f"{self.sum:016x}" == wanted["checksum"]
        assert pairs_in_window == wanted["in_window"]


#: Every pair is tested; and windows are searched in the order of cells wherever there is a key, in
#: slabs that are short enough for the windows of these streams.
WAYS = {
    "every pair": None,
    "ordered": Pruning(least_pairs=1, run_rows=(16, 128, 1024), always=True),
}
#: Queries with no key to search by: an OR, or no bounds but one.
WITHOUT_KEYS = ("F1", "F2", "F3", "F4", "S1")
#: As tables, the short run has those that are not much like another one.
AS_TABLES = set(QUERIES) - {"F2", "F3", "F4", "G3", "U3", "Z2"}
#: As streams, it has one of each kind.
AS_STREAMS = {"A2", "B2", "F1", "G1", "N2", "S2", "U2", "Z1"}


def both_ways(short: set[str]) -> pytest.MarkDecorator:
    """Each query in both ways, those of the short run not marked as slow."""
    return pytest.mark.parametrize(
        ("name", "pruning"),
        [
            pytest.param(q, pruning, id=f"{q}-{way}", marks=() if q in short else pytest.mark.slow)
            for q in QUERIES
            for way, pruning in WAYS.items()
        ],
    )


@both_ways(AS_TABLES)
def test_tables(name: str, pruning: Pruning | None) -> None:
    query, tables = loaded(name)
    answer = Answer()
    with open_device("cpu") as device:
        join = TableJoin(query, tables, device, pruning=pruning)
        for batch in join:
            answer.add(batch)
    answer.check(name, join.stats.pairs_in_window)
    check_way(name, join.stats, pruning)


def check_way(name: str, stats: Stats, pruning: Pruning | None) -> None:
    """Check that pairs were looked up, or tested as the window admits them.

    A look-up may test more than those: rows of a small cell are all tested, whatever their time.
    """
    # Some tuples have a NULL, or a key beyond all of the window's.
    is_looked_up = abs(1 - stats.pairs_evaluated / stats.pairs_in_window) > 0.05
    assert is_looked_up == (pruning is not None and name not in WITHOUT_KEYS)


@both_ways(AS_STREAMS)
def test_streams(name: str, pruning: Pruning | None) -> None:
    query, tables = loaded(name)
    disorder = 0
    if name.startswith("Z"):
        tables = {side: table.sort_by("log_pos") for side, table in tables.items()}
        disorder = LOG_DISORDER
    elif name == "N2":  # flights come by scheduled time; the cancelled ones have none to join on
        tables = {
            side: table.sort_by([("dep_min", "ascending"), ("id", "ascending")])
            for side, table in tables.items()
        }
    rng = np.random.default_rng(len(name))
    answer = Answer()
    with open_device("cpu", threads=2) as device:
        schemas = {side: table.schema for side, table in tables.items()}
        flow = Flow(running=Running(task_evaluations=TEN_MS, pruning=pruning or False))
        stream = JoinStream(query, schemas, device, disorder=disorder, flow=flow)
        most = {side: table.num_rows // 30 for side, table in tables.items()}
        while any(table.num_rows for table in tables.values()):
            side = rng.choice([k for k, table in tables.items() if table.num_rows])
            count = int(rng.integers(1, most[side]))
            stream.push(side, tables[side].slice(0, count))
            tables[side] = tables[side].slice(count)
            answer.add(stream.poll())
        answer.add(stream.close())
    assert stream.stats.late == {"r": 0, "s": 0}
    answer.check(name, stream.stats.pairs_in_window)
    check_way(name, stream.stats, pruning)


# -- pruning --------------------------------------------------------------------------------------

_WINDOW = re.compile(r"s\.t_s BETWEEN r\.t_s - \d+ AND r\.t_s \+ \d+ AND ")
#: Queries with a window of so many rows, or of so many seconds to both sides.
LONG = {"U2": 65_536, "U3": 65_536, "A2": 65_536, "A1": "3600"}


def long_window(name: str) -> tuple[JoinQuery, dict[str, pa.Table]]:
    """A query with a long window, over the earlier half of its rows."""
    window, on = LONG[name], _WINDOW.sub("", facts("queries.json")[name]["on"])
    if isinstance(window, str):
        on = f"s.t_s BETWEEN r.t_s - {window} AND r.t_s + {window} AND {on}"
        query, tables = loaded(name, on=on)
    else:
        query, tables = loaded(name, on=on, rows=window)
    return query, {side: table.slice(0, table.num_rows // 2) for side, table in tables.items()}


@pytest.mark.parametrize(
    "name", ["U2", "A1", *(pytest.param(n, marks=pytest.mark.slow) for n in ("U3", "A2"))]
)
def test_pruning_of_tables(name: str) -> None:
    query, tables = long_window(name)
    with open_device("cpu") as device:
        found = []
        for pruning in (None, DEFAULT_PRUNING):
            join, answer = TableJoin(query, tables, device, pruning=pruning), Answer()
            for batch in join:
                answer.add(batch)
            found.append((answer.rows, answer.sum, join.stats.pairs_in_window))
        stats = join.stats
    assert found[0] == found[1]
    assert stats.pairs_evaluated + stats.pairs_pruned == stats.pairs_in_window
    assert 5 * stats.pairs_evaluated < stats.pairs_in_window


@pytest.mark.parametrize("name", [pytest.param("U3", marks=pytest.mark.slow), "A1"])
def test_pruning_of_streams(name: str) -> None:
    query, tables = long_window(name)
    wanted = Answer()
    with open_device("cpu", threads=2) as device:
        for batch in TableJoin(query, tables, device):
            wanted.add(batch)
        answer = Answer()
        with JoinStream(query, {k: t.schema for k, t in tables.items()}, device) as stream:
            # Both sides advance together, as their times do.
            for part in range(20):
                for side, table in tables.items():
                    step = -(-table.num_rows // 20)
                    stream.push(side, table.slice(part * step, step))
                answer.add(stream.poll())
            answer.add(stream.close())
    assert (answer.rows, answer.sum) == (wanted.rows, wanted.sum)
    assert 5 * stream.stats.pairs_evaluated < stream.stats.pairs_in_window
