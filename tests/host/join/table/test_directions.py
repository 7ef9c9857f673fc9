"""Which side of a join of whole tables is the window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.host.device.registry import open_device
from penstock.host.join.table import directions
from penstock.host.join.table.table_join import TableJoin
from penstock.query.compiler import compile_select
from penstock.query.options import QueryOptions

TEXT = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.lo <= b.x AND b.x < a.hi"


def joined(rows: int, others: int) -> tuple[str, pa.Table]:
    """The window's side of a join of intervals and points, and its rows in order."""
    rng = np.random.default_rng(1)
    lo = rng.random(rows)
    a = pa.table({"id": np.arange(rows), "lo": lo, "hi": lo + 1e-5})
    b = pa.table({"id": np.arange(others), "x": rng.random(others)})
    tables = {"a": a, "b": b}
    schemas = {name: table.schema for name, table in tables.items()}
    query = compile_select(TEXT, schemas, QueryOptions(all_rows=True))
    with open_device("cpu") as device:
        join = TableJoin(query, tables, device)
        found = pa.Table.from_batches(list(join), join.schema)
    (one,) = join.directions
    return one.evaluation.form.window, found.sort_by([("i", "ascending"), ("j", "ascending")])


def test_fewer_tests_come_first_where_tables_are_short() -> None:
    assert joined(5_000, 300)[0] == "r"


@pytest.mark.parametrize("cheaper", ["l", "r"])
def test_the_cheaper_side_is_chosen_and_rows_are_the_same(
    monkeypatch: pytest.MonkeyPatch, cheaper: str
) -> None:
    _, expected = joined(directions.COSTED_TUPLES, 300)

    def cost(form: Any, *_: Any) -> float:
        return 0.0 if form.window == cheaper else 1.0

    monkeypatch.setattr(directions, "expected_s", cost)
    window, found = joined(directions.COSTED_TUPLES, 300)
    assert window == cheaper
    assert found.equals(expected)
    assert found.num_rows > 300
