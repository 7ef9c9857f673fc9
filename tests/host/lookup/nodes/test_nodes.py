"""Rows that nodes answer are the rows of the folder."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.lookup.nodes.client import open_nodes
from penstock.host.relation import RelationOptions, build, open_relation
from tests.host.lookup.nodes.kit import nodes_of


def table(rows: int, seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    ids = random.integers(0, rows, rows)
    return pa.table(
        {
            "id": pa.array(ids, mask=random.random(rows) < 0.01),
            "n": np.arange(rows),
            "text": [f"row {k}" * (k % 3) for k in range(rows)],
        }
    )


def rows_in(location: str, number: int, columns: list[str], hashes: np.ndarray) -> pa.Table:
    with closing(open_relation(location)) as stored:
        version = stored.version(number)
        pages = np.unique(version.index.page_of(hashes))
        rows = version.read(pages, columns)
        wanted = np.isin(rows.hashes, hashes)
        return pa.Table.from_batches([rows.batch.filter(pa.array(wanted))])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_rows_through_nodes_are_those_of_the_folder(tmp_path, count):
    place = str(tmp_path / "r.rel")
    build(table(20_000), place, RelationOptions(key=("id",)))
    with nodes_of(place, count) as nodes, closing(open_nodes(place)) as asked:
        version = asked.version()
        with closing(open_relation(place)) as stored:
            keys = [np.unique(p.hashes) for p in stored.version().batches(["id"])]
        known = np.unique(np.concatenate(keys))[:-1]
        random = np.random.default_rng(3)
        for _ in range(5):
            strange = random.integers(0, 1 << 63, 100, dtype=np.uint64) * np.uint64(2)
            sought = np.unique(np.concatenate([random.choice(known, 9_000), strange]))
            pages = np.unique(version.index.page_of(sought))
            found = version.read(pages, ["n", "id"], sought)
            assert found.starts[-1] == len(found.hashes) == found.batch.num_rows
            expected = rows_in(place, version.number, ["n", "id"], sought)
            order = [("n", "ascending")]
            given = pa.Table.from_batches([found.batch])
            assert given.sort_by(order).equals(expected.sort_by(order))
        assert asked.ask_counts.alone == 0
        counts = [node.forwarding.counts for node in nodes]
        assert (sum(one.forwarded for one in counts) > 0) == (count > 1)
        assert sum(one.instead for one in counts) == 0
        assert sum(node.counts.keys_in for node in nodes) == sum(c.forwarded for c in counts)


def test_a_query_gives_the_same_rows_with_nodes(tmp_path):
    place = str(tmp_path / "r.rel")
    build(table(5_000), place, RelationOptions(key=("id",)))
    orders = pa.table({"o": np.arange(20_000), "k": np.arange(20_000) % 6_000})
    for text in (
        "SELECT s.o, r.n, r.text FROM s LEFT JOIN r ON s.k = r.id",
        "SELECT s.o FROM s ANTI JOIN r ON s.k = r.id AND r.n > 100",
        "SELECT s.k, count(*) AS c, sum(r.n) AS n FROM s JOIN r ON s.k = r.id GROUP BY s.k",
        "SELECT s.o, r.n FROM s JOIN r ON abs(s.o - r.n) < 1 AND s.k < 40",
    ):
        alone = penstock.sql(text, {"s": orders, "r": penstock.relation(place)})
        with nodes_of(place, 3):
            tables = {"s": orders, "r": penstock.relation(place, nodes=True)}
            found = penstock.sql(text, tables)
        order = [(name, "ascending") for name in alone.schema.names if name != "text"]
        assert found.num_rows > 0
        assert found.sort_by(order).equals(alone.sort_by(order))
