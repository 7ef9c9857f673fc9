"""Relations that are several times larger than the memory, beside DuckDB."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.relation import FolderRelation, RelationOptions, build
from tests.host.join.lookup.cases import ALGORITHMS
from tests.host.relation.model import row_list

JOINS = {
    "JOIN": "SELECT o.id, c.rid, c.payload FROM orders o JOIN customers c ON {on}",
    "LEFT": "SELECT o.id, c.rid, c.payload FROM orders o LEFT JOIN customers c ON {on}",
    "SEMI": "SELECT o.id FROM orders o LEFT SEMI JOIN customers c ON {on}",
    "ANTI": "SELECT o.id FROM orders o LEFT ANTI JOIN customers c ON {on}",
    "GROUP": "SELECT o.id, count(*) AS n, sum(c.v) AS s FROM orders o JOIN customers c ON {on} "
    "GROUP BY o.id",
}
ON = "o.k = c.k AND o.city = c.city AND o.w >= c.v"
CITIES = np.array(["Taipei", "Tainan", "Hsinchu", "", "Kaohsiung"])


class World:
    """A relation that changes, kept as a table beside."""

    def __init__(self, seed: int, rows: int, keys: int, algorithm: str, page_bytes: int) -> None:
        self.random = np.random.default_rng(seed)
        self.keys = keys
        self.numbers = 0
        self.table = self.fresh(rows)
        self.seed = seed
        self.algorithm = algorithm
        self.options = RelationOptions(
            key=("k", "city"),
            page_bytes=page_bytes,
            hash="splitmix64-1" if seed % 2 else "splitmix64-1/8",
        )

    def fresh(self, rows: int) -> pa.Table:
        """Rows of the relation: of hot keys more than of cold ones, and some with NULL keys."""
        k = np.minimum(self.random.zipf(1.4, rows) * 7, self.keys) % self.keys
        k = np.where(self.random.random(rows) < 0.8, self.random.integers(0, self.keys, rows), k)
        numbers = np.arange(self.numbers, self.numbers + rows)
        self.numbers += rows
        sizes = self.random.integers(0, 200, rows)
        return pa.table(
            {
                "k": pa.array(k, pa.int64(), mask=self.random.random(rows) < 0.02),
                "city": pa.array(CITIES[self.random.integers(0, len(CITIES), rows)]),
                "rid": pa.array(numbers, pa.int64()),
                "v": pa.array(self.random.integers(0, 9, rows), pa.int32()),
                "payload": pa.array(["p" * size for size in sizes.tolist()]),
            }
        )

    def orders(self, rows: int, first: int) -> pa.Table:
        k = np.minimum(self.random.zipf(1.3, rows), self.keys * 2)
        return pa.table(
            {
                "id": pa.array(np.arange(first, first + rows), pa.int64()),
                "k": pa.array(k, pa.int32(), mask=self.random.random(rows) < 0.02),
                "city": pa.array(CITIES[self.random.integers(0, len(CITIES), rows)]),
                "w": pa.array(self.random.integers(0, 9, rows), pa.int32()),
            }
        )

    def change(self, relation: FolderRelation) -> None:
        """Upsert some keys, delete some, append some."""
        kind = self.random.integers(0, 4)
        rows = self.fresh(100)
        rows = rows.filter(rows["k"].is_valid())
        if kind == 0:
            relation.append(rows)
            self.table = pa.concat_tables([self.table, rows])
        elif kind == 1:
            relation.compact()
        else:
            keys = rows.select(["k", "city"])
            deletes = kind == 2
            relation.update(None if deletes else rows, keys if deletes else None)
            gone = set(row_list(keys))
            own = row_list(self.table.select(["k", "city"]))
            kept = self.table.filter(pa.array([key not in gone for key in own]))
            self.table = kept if deletes else pa.concat_tables([kept, rows])

    def wanted(self, query: str, orders: pa.Table) -> Counter:
        with duckdb.connect(config={"threads": 1}) as db:
            db.register("orders", orders)
            db.register("customers", self.table)
            text = query.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
            return Counter(row_list(db.sql(text).to_arrow_table()))


def check(seed: int, join: str, algorithm: str, **sizes: Any) -> Any:
    """Push batches of random sizes while the relation changes; returns the last report."""
    rows, stream_rows = sizes.get("rows", 8_000), sizes.get("stream_rows", 3_000)
    memory, latency_s = sizes.get("memory", 500_000), sizes.get("latency_s", 0.0)
    world = World(seed, rows, rows // 4, algorithm, sizes.get("page_bytes", 4096))
    query = JOINS[join].format(on=ON)
    with tempfile.TemporaryDirectory() as folder:
        location = str(Path(folder, "r"))
        relation = build(world.table, location, world.options)
        schema = world.orders(1, 0).schema
        stream = penstock.stream(
            query,
            {"orders": schema, "customers": penstock.relation(location, algorithm=algorithm)},
            unique={"o": "id"} if join == "GROUP" else None,
            flow=penstock.Flow(latency_s=latency_s, memory_bytes=memory),
        )
        wanted: Counter = Counter()
        found: Counter = Counter()
        at = 0
        while at < stream_rows:
            count = int(world.random.choice([1, 17, 400, 1500]))
            orders = world.orders(count, at)
            at += count
            wanted.update(world.wanted(query, orders))
            stream.push("orders", orders)
            if world.random.random() < 0.5:
                found.update(row_list(stream.poll()))
            if world.random.random() < 0.4:
                world.change(relation)
        report = stream.report()
        found.update(row_list(stream.close()))
        relation.close()
    assert found == wanted, (len(found - wanted), len(wanted - found))
    return report


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(algorithm):
    report = check(len(algorithm), list(JOINS)[ALGORITHMS.index(algorithm)], algorithm)
    lookup = report.lookup
    assert lookup.sought + lookup.null_keys == report.arrived["o"]
    assert lookup.pages > 0
    assert lookup.page_bytes > 0
    assert lookup.version > 1
    if "cache" in algorithm or algorithm == "auto":
        assert lookup.hits > 0
        assert lookup.cached > 0
        assert report.memory_bytes["kept rows"] > 0
    else:
        assert (lookup.hits, lookup.cached) == (0, 0)
    assert sum(report.memory_bytes.values()) <= 500_000


@pytest.mark.slow
@pytest.mark.parametrize("join", list(JOINS))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("latency_s", [0.0, 0.02, 60.0])
def test_many(algorithm, join, latency_s):
    for seed in range(3):
        check(
            seed,
            join,
            algorithm,
            rows=30_000,
            stream_rows=20_000,
            memory=500_000 << seed,
            latency_s=latency_s,
            page_bytes=1024 << (2 * seed),
        )
