"""Real streams beside DuckDB and known answers, with memory of a sixteenth of the relation.

The files are those of the folder in PENSTOCK_DATA.
"""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.relation import RelationOptions, build
from tests.host.join.lookup.cases import ALGORITHMS

FOLDER = os.environ.get("PENSTOCK_DATA")
pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="PENSTOCK_DATA names no folder with the real streams"
)


@dataclass(frozen=True)
class Real:
    """A stream and a relation: SQL of each, the key, and the condition."""

    stream: str
    relation: str
    key: tuple[str, ...]
    on: str
    #: In expected.json, and whether the stream is R there.
    name: str | None = None
    is_first: bool = True


REAL = {
    "flights": Real(
        "SELECT id, origin_id, hour_utc FROM flights ORDER BY sched_min, id",
        "SELECT id, origin_id, hour_utc, visib, repeat('w', 600) AS pad FROM weather",
        ("origin_id", "hour_utc"),
        "s.origin_id = r.origin_id AND s.hour_utc = r.hour_utc AND r.visib < 3",
        "N1",
    ),
    "jobs": Real(
        "SELECT id, job_id, t_us FROM gjobs WHERE event = 4 ORDER BY t_us, id",
        "SELECT id, job_id, t_us, user, repeat('j', 60) AS pad FROM gjobs WHERE event = 0",
        ("job_id",),
        "s.job_id = r.job_id AND s.t_us BETWEEN r.t_us AND r.t_us + 300000000",
        "G1",
        is_first=False,
    ),
    "logs": Real(
        "SELECT id, orig_ip, resp_ip, t_us FROM zeek_ssl ORDER BY log_pos",
        "SELECT id, orig_ip, answer_ip, t_us, repeat('d', 600) AS pad FROM zeek_dns "
        "WHERE answer_ip <> 0",
        ("orig_ip", "answer_ip"),
        "s.orig_ip = r.orig_ip AND s.resp_ip = r.answer_ip "
        "AND s.t_us BETWEEN r.t_us AND r.t_us + 60000000",
        "Z2",
        is_first=False,
    ),
}


@cache
def duck() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect(config={"threads": 1})
    for name in ("flights", "weather", "gjobs", "zeek_ssl", "zeek_dns"):
        file = Path(FOLDER or "") / f"{name}.parquet"
        db.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{file}')")
    return db


def checksum(rows: pa.Table, *, is_first: bool) -> str:
    """As the known answers have it, of the ids of R and S."""
    columns = (0, 1) if is_first else (1, 0)
    r, s = (rows.column(k).to_numpy().astype(np.uint64) + np.uint64(1) for k in columns)
    mixed = r * np.uint64(0x9E3779B97F4A7C15) ^ s * np.uint64(0xC2B2AE3D27D4EB4F)
    return f"{int(mixed.sum(dtype=np.uint64)):016x}"


JOINS = {
    "inner": "SELECT s.id AS s_id, r.id AS r_id FROM s JOIN r ON {on}",
    "left": "SELECT s.id AS s_id, r.id AS r_id FROM s LEFT JOIN r ON {on}",
    "semi": "SELECT s.id AS s_id FROM s LEFT SEMI JOIN r ON {on}",
    "anti": "SELECT s.id AS s_id FROM s LEFT ANTI JOIN r ON {on}",
}


@pytest.fixture(scope="module", params=list(REAL))
def real(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Real, pa.Table, pa.Table, str, int]:
    """The tables, the place of the stored relation, and a sixteenth of its bytes."""
    one = REAL[request.param]
    stream = duck().sql(one.stream).to_arrow_table()
    relation = duck().sql(one.relation).to_arrow_table()
    place = str(tmp_path_factory.mktemp("real") / "r.rel")
    stored = build(relation, place, RelationOptions(key=one.key))
    memory = stored.version().bytes // 16
    stored.close()
    return one, stream, relation, place, memory


def check(real: tuple[Real, pa.Table, pa.Table, str, int], join: str, algorithm: str) -> None:
    one, stream, relation, place, memory = real
    query = JOINS[join].format(on=one.on)
    found = penstock.stream(
        query,
        {"s": stream.schema, "r": penstock.relation(place, algorithm=algorithm)},
        flow=penstock.Flow(latency_s=0.05, memory_bytes=memory),
    )
    parts = []
    at = 0
    for size in itertools.cycle((5_000, 1, 12_345)):
        found.push("s", stream.slice(at, size))
        parts.append(found.poll())
        at += size
        if at >= stream.num_rows:
            break
    rows = pa.concat_tables([*parts, found.close()])
    if join == "inner" and one.name:
        known = json.loads((Path(FOLDER or "") / "expected.json").read_text(encoding="utf-8"))
        assert rows.num_rows == known[one.name]["matches"]
        assert checksum(rows, is_first=one.is_first) == known[one.name]["checksum"]
    db = duck()
    db.register("s", stream)
    db.register("r", relation)
    text = query.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
    order = [(name, "ascending") for name in rows.schema.names]
    wanted = db.sql(text).to_arrow_table().cast(rows.schema)
    assert rows.sort_by(order).equals(wanted.sort_by(order))


@pytest.mark.parametrize("join", ["inner", "left"])
def test_auto(real, join):
    check(real, join, "auto")


@pytest.mark.slow
@pytest.mark.parametrize("join", list(JOINS))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(real, join, algorithm):
    check(real, join, algorithm)


def test_a_table(real):
    one, stream, _, place, memory = real
    tables = {"s": stream, "r": penstock.relation(place)}
    rows = penstock.sql(JOINS["inner"].format(on=one.on), tables, memory_bytes=memory)
    known = json.loads((Path(FOLDER or "") / "expected.json").read_text(encoding="utf-8"))
    assert rows.num_rows == known[one.name]["matches"]
    assert checksum(rows, is_first=one.is_first) == known[one.name]["checksum"]
