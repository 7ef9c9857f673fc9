"""Rows of one side: parts that are put together keep what belongs together."""

from __future__ import annotations

import pyarrow as pa

from penstock.host.rows.sides import Loaded, read_side
from penstock.query import compile_query
from tests.host.kit.streams import SCHEMA, Row, batch_of

QUERY = compile_query(
    "SELECT a.n AS a, b.n AS b FROM a LEFT JOIN b ON a.t = b.t",
    {"a": SCHEMA, "b": SCHEMA},
    time={"a": "t", "b": "t"},
)


def loaded(*rows: Row) -> Loaded:
    table = pa.Table.from_batches([batch_of(rows)])
    return Loaded.of_table(QUERY.left, table, read_side(QUERY, QUERY.left, table))


def test_parts_are_one_table_with_and_without_times() -> None:
    parts = [loaded((1, 5, 0), (2, None, 0)), loaded((3, None, 0), (4, 3, 0)), loaded((5, 5, 0))]
    found = Loaded.concat(parts)
    numbers = found.table["n"].to_numpy()
    assert numbers[found.rows.row].tolist() == [4, 1, 5]
    assert found.rows.time.tolist() == [3, 5, 5]
    assert numbers[found.timeless.row].tolist() == [2, 3]
