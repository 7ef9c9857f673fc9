"""Which rows of a micro-batch are late, and which take part."""

from __future__ import annotations

import pyarrow as pa

from penstock.host.join.step import Frontier
from penstock.plan.query import LEFT, RIGHT, named_by_side
from penstock.query import compile_query
from penstock.spark_bridge.streaming.ingest import admit

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.int64())])
QUERY = named_by_side(
    compile_query(
        "SELECT a.n AS a, b.n AS b FROM a LEFT JOIN b ON abs(a.t - b.t) <= 3",
        {"a": SCHEMA, "b": SCHEMA},
        time={"a": "t", "b": "t"},
    )
)


def test_a_row_at_the_watermark_is_on_time() -> None:
    table = pa.table([[0, 1, 2, 3, 4], [9, 11, 10, 8, None]], schema=SCHEMA)
    frontier = Frontier(QUERY, {LEFT: 10, RIGHT: 0})
    left = admit(frontier, LEFT, table)
    assert left.late.tolist() == [0, 3]
    assert left.loaded.rows.row.tolist() == [2, 1]
    assert left.loaded.timeless.row.tolist() == [4]
    assert left.latest == 11
    right = admit(frontier, RIGHT, table)  # of which the join preserves no row
    assert right.loaded.rows.row.tolist() == [3, 0, 2, 1]
    assert not len(right.late)
    assert not len(right.loaded.timeless)
