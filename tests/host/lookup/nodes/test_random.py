"""Random relations, versions and cuts: rows through nodes are those of the folder."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.relation import RelationOptions, build, open_relation
from tests.host.lookup.nodes.kit import nodes_of
from tests.kit.effort import effort

QUERY = "SELECT s.row, r.n, r.text FROM s LEFT JOIN r ON s.k = r.id"
SCHEMA = pa.schema([("row", pa.int64()), ("k", pa.int64())])


def drawn(random: np.random.Generator, rows: int, keys: int) -> pa.Table:
    ids = pa.array(random.integers(0, keys, rows), mask=random.random(rows) < 0.05)
    text = ["x" * size for size in random.integers(0, 60, rows).tolist()]
    return pa.table({"id": ids, "n": random.integers(0, 1 << 40, rows), "text": text})


@pytest.mark.parametrize("seed", range(effort(40, 4)))
def test_updates_while_rows_stream(tmp_path, seed):
    random = np.random.default_rng(seed)
    keys, place = int(random.integers(1, 3_000)), str(tmp_path / "r.rel")
    options = RelationOptions(key=("id",), page_bytes=4096)
    build(drawn(random, int(random.integers(0, 4_000)), keys), place, options).close()
    order = [("row", "ascending"), ("n", "ascending"), ("text", "ascending")]
    with nodes_of(place, seed % 4 + 1) as nodes, closing(open_relation(place)) as writer:
        table = penstock.relation(place, nodes=True)
        flow = penstock.Flow(memory_bytes=1 << 20)
        with penstock.stream(QUERY, {"s": SCHEMA, "r": table}, flow=flow) as stream:
            for first in range(0, 6_000, 1_000):
                size = int(random.integers(1, 1_000))
                numbers = np.arange(first, first + size)
                sought = random.integers(-5, keys + 5, size)
                batch = pa.record_batch([numbers, sought], schema=SCHEMA)
                stream.push("s", batch)
                stream.flush()
                tables = {"s": pa.Table.from_batches([batch]), "r": penstock.relation(place)}
                expected = penstock.sql(QUERY, tables)
                assert stream.poll().sort_by(order).equals(expected.sort_by(order))
                changed = drawn(random, 200, keys)
                changed = changed.filter(changed["id"].is_valid())
                gone = pa.table({"id": np.arange(keys, keys + 3)})
                writer.update(changed, gone)
            lookup = stream.report().lookup
            assert lookup is not None
            assert lookup.alone == 0
        assert sum(node.counts.entered for node in nodes) > 0
