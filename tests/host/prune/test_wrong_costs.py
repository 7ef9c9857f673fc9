"""Orders of tables whose expected time is wrong: others are tried, and rows stay the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.prune import chooser
from penstock.host.prune.cell_search import Orderings
from penstock.host.prune.cells import Grid
from penstock.host.prune.sizes import Pruning
from penstock.host.prune.zones import ZoneOrder

ROWS = 6_000
OVERLAP = "a.lo <= b.hi AND b.lo <= a.hi"
NEAR = "abs(a.x - b.x) + abs(a.y - b.y) < 1"


def table(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    lows = rng.integers(0, 1_000_000, ROWS)
    lengths = rng.integers(1, 50, ROWS)
    lengths[:9] *= 1000
    x = rng.random(ROWS) * 100
    # y follows x: together they rule out no more than one of them.
    columns = {"lo": lows, "hi": lows + lengths, "x": x, "y": x + rng.random(ROWS)}
    return pa.table({"id": np.arange(ROWS), **columns})


@pytest.mark.parametrize("on", [OVERLAP, NEAR])
@pytest.mark.parametrize("factors", [(1e-6, 1.0), (1.0, 1e-6), (1e-6, 1e-6)])
def test_an_order_that_takes_longer_than_expected_gives_way(on, factors, monkeypatch):
    """The expected time of cells, of zones, or of both, is far too short."""
    sorted_kinds: list[type] = []
    sort = Orderings._sort

    def noted(self: Orderings, *args: Any) -> None:
        sorted_kinds.extend(type(level.grid) for level in self.levels if level.end == level.first)
        sort(self, *args)

    def wrong(choose: Any, factor: float) -> Any:
        def chosen(*args: Any, **options: Any) -> Any:
            choice = choose(*args, **options)
            return choice and replace(choice, tuple_ns=choice.tuple_ns * factor, sort_ns=0.0)

        return chosen

    monkeypatch.setattr(Orderings, "_sort", noted)
    monkeypatch.setattr(chooser, "choose", wrong(chooser.choose, factors[0]))
    monkeypatch.setattr(chooser, "choose_zones", wrong(chooser.choose_zones, factors[1]))
    monkeypatch.setattr(chooser, "least_ns", lambda costs: 0.0)
    a, b = table(1), table(2)
    text = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {on}"
    rows = penstock.sql(text, {"a": a, "b": b}, pruning=Pruning(least_pairs=1))
    expected = duckdb.sql(text).to_arrow_table()
    order = [("i", "ascending"), ("j", "ascending")]
    assert rows.sort_by(order).equals(expected.sort_by(order).cast(rows.schema))
    assert len(sorted_kinds) == len(set(sorted_kinds))  # none is sorted twice
    if on == NEAR and factors == (1e-6, 1e-6):
        assert set(sorted_kinds) == {Grid, ZoneOrder}
