"""Joins of real streams with relations: what each is of, its tables, and DuckDB's answers.

The files are those of the folder in PENSTOCK_DATA.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import UsageError
from penstock.host.relation import RelationOptions, build
from tests.host.join.lookup.cases import LEAST

FOLDER = os.environ.get("PENSTOCK_DATA")
needs_data = pytest.mark.skipif(
    FOLDER is None, reason="PENSTOCK_DATA names no folder with the real streams"
)
FILES = (
    *("flights", "weather", "gjobs", "zeek_ssl", "zeek_dns"),
    *("uber", "seismic", "seismic_stations"),
)

JOINS = {
    "inner": "SELECT s.id AS s_id, r.id AS r_id FROM s JOIN r ON {on}",
    "left": "SELECT s.id AS s_id, r.id AS r_id FROM s LEFT JOIN r ON {on}",
    "semi": "SELECT s.id AS s_id FROM s LEFT SEMI JOIN r ON {on}",
    "anti": "SELECT s.id AS s_id FROM s LEFT ANTI JOIN r ON {on}",
}


@dataclass(frozen=True)
class Real:
    """A join of a stream and a relation.

    Parameters
    ----------
    stream, relation : str
        SQL over the files; both have a column ``id``, and the stream is in the order of arrival.
    on : str
        The condition, of ``s`` and ``r``.
    key, cluster : tuple of str
        How the relation is stored.
    one_in : int
        The short run takes one in so many rows of the stream.
    most_rows : int
        The full run takes no more rows of the stream, spread evenly; 0 for all.
    known : str
        Its name in expected.json, "" if it is not there.
    is_first : bool
        Whether the stream is R there.
    """

    stream: str
    relation: str
    on: str
    key: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    one_in: int = 1
    most_rows: int = 0
    known: str = ""
    is_first: bool = True


REAL = {
    "flights": Real(
        "SELECT id, origin_id, hour_utc FROM flights ORDER BY sched_min, id",
        "SELECT id, origin_id, hour_utc, visib, repeat('w', 600) AS pad FROM weather",
        "s.origin_id = r.origin_id AND s.hour_utc = r.hour_utc AND r.visib < 3",
        key=("origin_id", "hour_utc"),
        one_in=12,
        known="N1",
    ),
    "jobs": Real(
        "SELECT id, job_id, t_us FROM gjobs WHERE event = 4 ORDER BY t_us, id",
        "SELECT id, job_id, t_us, user, repeat('j', 60) AS pad FROM gjobs WHERE event = 0",
        "s.job_id = r.job_id AND s.t_us BETWEEN r.t_us AND r.t_us + 300000000",
        key=("job_id",),
        one_in=4,
        known="G1",
        is_first=False,
    ),
    "logs": Real(
        "SELECT id, orig_ip, resp_ip, t_us FROM zeek_ssl ORDER BY log_pos",
        "SELECT id, orig_ip, answer_ip, t_us, repeat('d', 600) AS pad FROM zeek_dns "
        "WHERE answer_ip <> 0",
        "s.orig_ip = r.orig_ip AND s.resp_ip = r.answer_ip "
        "AND s.t_us BETWEEN r.t_us AND r.t_us + 60000000",
        key=("orig_ip", "answer_ip"),
        known="Z2",
        is_first=False,
    ),
    "rides": Real(
        "SELECT id, x_m, y_m FROM uber WHERE base = 1 ORDER BY t_s, id",
        "SELECT id, x_m, y_m, repeat('u', 60) AS pad FROM uber WHERE base = 3",
        "(s.x_m - r.x_m) * (s.x_m - r.x_m) + (s.y_m - r.y_m) * (s.y_m - r.y_m) <= 62500",
        cluster=("x_m", "y_m"),
        one_in=1000,
        most_rows=1500,
    ),
    "picks": Real(
        "SELECT id, station, amp FROM seismic ORDER BY t_ms, id",
        "SELECT station AS id, station, sta, elev FROM seismic_stations",
        "s.station = r.station AND r.elev > 0.5 AND s.amp > 0.000001",
        key=("station",),
        one_in=8,
    ),
    "near": Real(
        "SELECT id, station, x_m, y_m FROM seismic ORDER BY t_ms, id",
        "SELECT station AS id, station, x, y, sta FROM seismic_stations",
        "s.station <> r.station AND abs(s.x_m - r.x) + abs(s.y_m - r.y) < 9000",
        key=("station",),
        cluster=("x", "y"),
        one_in=8,
    ),
}


@cache
def _duck() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect(config={"threads": 1})
    for name in FILES:
        file = Path(FOLDER or "") / f"{name}.parquet"
        db.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{file}')")
    return db


def _wide(table: pa.Table) -> pa.Table:
    """With integers of 64 bits, in which DuckDB's arithmetic does not overflow."""
    fields = [
        pa.field(f.name, pa.int64()) if pa.types.is_integer(f.type) else f for f in table.schema
    ]
    return table.cast(pa.schema(fields))


class Tables:
    """The stream and the relation of a join, both as files.

    Parameters
    ----------
    name : str
        Of :data:`REAL`.
    folder : Path
    one_in : int
        Takes one in so many rows of the stream.
    """

    def __init__(self, name: str, folder: Path, one_in: int = 1) -> None:
        self.join = REAL[name]
        whole = _duck().sql(self.join.stream).to_arrow_table()
        one_in = max(one_in, -(-whole.num_rows // (self.join.most_rows or whole.num_rows)))
        self.is_whole = one_in == 1
        self.stream = whole.take(np.arange(0, whole.num_rows, one_in))
        self.relation = _duck().sql(self.join.relation).to_arrow_table()
        self.stream_file = folder / "s.parquet"
        pq.write_table(self.stream, self.stream_file)
        self.place = str(folder / "r.rel")
        options = RelationOptions(key=self.join.key, cluster=self.join.cluster)
        stored = build(self.relation, self.place, options)
        self.memory_bytes = max(stored.version().bytes // 16, self._least())
        stored.close()

    def query(self, join: str) -> str:
        return JOINS[join].format(on=self.join.on)

    def _least(self) -> int:
        """The least memory of the join, from what the refusal of too little says.

        With the widest integers, as Spark has wider ones than a file.
        """
        tables = {"s": _wide(self.stream), "r": penstock.relation(self.place)}
        with pytest.raises(UsageError) as refusal:
            penstock.sql(self.query("left"), tables, memory_bytes=1)
        found = LEAST.search(str(refusal.value))
        assert found, str(refusal.value)
        return int(found[1].replace(",", ""))

    @cache  # noqa: B019  (a test's tables live as long as the tests of its module)
    def wanted(self, join: str) -> pa.Table:
        """DuckDB's rows, in the order of :func:`in_order`."""
        db = _duck()
        db.register("s", _wide(self.stream))
        db.register("r", _wide(self.relation))
        text = self.query(join).replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
        return in_order(db.sql(text).to_arrow_table())

    def check(self, join: str, rows: pa.Table) -> None:
        """Compare rows with DuckDB's and, where there is one, with the known answer."""
        assert in_order(rows).equals(self.wanted(join))
        if join == "inner" and self.join.known and self.is_whole:
            known = json.loads((Path(FOLDER or "") / "expected.json").read_text(encoding="utf-8"))
            assert rows.num_rows == known[self.join.known]["matches"]
            found = checksum(rows, is_first=self.join.is_first)
            assert found == known[self.join.known]["checksum"]


def in_order(rows: pa.Table) -> pa.Table:
    """Rows of ids in a fixed order and of one type."""
    order = [(name, "ascending") for name in rows.schema.names]
    return _wide(rows).sort_by(order).combine_chunks()


def checksum(rows: pa.Table, *, is_first: bool) -> str:
    """As the known answers have it, of the ids of R and S."""
    columns = (0, 1) if is_first else (1, 0)
    r, s = (rows.column(k).to_numpy().astype(np.uint64) + np.uint64(1) for k in columns)
    mixed = r * np.uint64(0x9E3779B97F4A7C15) ^ s * np.uint64(0xC2B2AE3D27D4EB4F)
    return f"{int(mixed.sum(dtype=np.uint64)):016x}"
