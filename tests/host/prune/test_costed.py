"""Orders that were costed: known numbers of tested rows, the order used, and looks at it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from penstock.host.device.registry import open_device
from penstock.host.join.table.table_join import TableJoin
from penstock.host.prune import chooser
from penstock.host.prune.costed import Candidate, Costed
from penstock.query.compiler import compile_select
from penstock.query.options import QueryOptions

ROWS, KEYS, REACH = 8_000, 100, 4


def table(seed: int) -> pa.Table:
    """Rows with each of 100 keys as often, and each x from 0 to 999 as often."""
    rng = np.random.default_rng(seed)
    keys, xs = (rng.permutation(np.arange(ROWS) % n) for n in (KEYS, 1000))
    return pa.table({"id": np.arange(ROWS), "k": keys, "x": xs})


def ran(on: str) -> tuple[Costed, TableJoin, int]:
    """What was costed for a join, the join, and its rows."""
    tables = {"a": table(1), "b": table(2)}
    a, b = tables.values()
    text = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {on}"
    schemas = {name: one.schema for name, one in tables.items()}
    query = compile_select(text, schemas, QueryOptions(all_rows=True))
    with open_device("cpu") as device:
        join = TableJoin(query, tables, device)
        rows = sum(batch.num_rows for batch in join)
    assert rows == len(duckdb.sql(text).fetchall()), (a, b)
    (costed,) = join.costed.values()
    return costed, join, rows


def test_known_numbers():
    costed, join, _ = ran(f"a.k = b.k AND abs(a.x - b.x) <= {REACH}")
    assert (costed.tuples, costed.pairs) == (ROWS, ROWS**2)
    assert costed.tested(None) == ROWS
    assert costed.seconds(None) == pytest.approx(ROWS**2 * 0.06e-9)
    by = {costed.by(one): costed.tested(one) for one in costed.candidates if one.kind == "cells"}
    assert by["b.k"] == pytest.approx(ROWS / KEYS, rel=0.1)
    assert by["b.k, b.x"] < by["b.k"] / 2
    assert costed.chosen is not None
    assert costed.by(costed.chosen) == "b.k, b.x"
    assert costed.used == {costed.chosen.kind: ROWS}
    assert not costed.turned_down
    tested = join.stats.pairs_evaluated
    order, tests = costed.outcome(tested)
    assert order == f"{costed.chosen.kind} for 8,000 rows"
    assert tests.startswith(f"{tested / ROWS:,.0f} tests a row, ")
    assert tested / ROWS == pytest.approx(costed.tested(costed.chosen), abs=10)


def test_lines_put_the_cheapest_first_and_mark_the_chosen():
    fast, slow = Candidate("cells", (0,), 0.01, 100, 25), Candidate("zones", (0, 1), 0.1, 300, 50)
    costed = Costed(lambda: ("b.k", "b.x"), 10, 10_000, 1000, 20, 0.06, [slow, fast], chosen=fast)
    (everything, _), first, second = costed.lines()
    assert (everything, first[0], second[0]) == ("all pairs", "cells", "zones")
    assert first[1].split() == ["10", "2e-06", "s", "2.5e-05", "s", "by", "b.k", "(chosen)"]
    assert second[1].split() == ["100", "6e-06", "s", "5e-05", "s", "by", "b.k,", "b.x"]
    assert costed.lines(20)[1][1].split()[1] == "4e-06"  # of twice as many tuples


def test_an_order_that_a_look_turned_down_is_told(monkeypatch):
    choose = chooser.choose

    def hopeful(*args: Any, **options: Any) -> Any:
        choice = choose(*args, **options)
        return choice and replace(choice, tuple_ns=choice.tuple_ns * 1e-6)

    monkeypatch.setattr(chooser, "choose", hopeful)
    costed, *_ = ran(f"a.k = b.k AND abs(a.x - b.x) <= {REACH}")
    expected, took = costed.turned_down["cells"]
    assert took > 1000 * expected
    assert any(text.startswith("the look turned cells down: ") for text in costed.outcome())


def test_an_order_that_was_not_sorted_is_told():
    few = Candidate("cells", (0,), 0.01, 100, 25)
    costed = Costed(lambda: ("b.k",), 10, 10_000, 1000, 20, 0.06, [few], chosen=few)
    costed.used["all pairs"] = 10
    assert costed.outcome(9_000) == [
        "all pairs for 10 rows",
        "cells not sorted: no faster with that than all pairs",
        "900 tests a row, 1,000 expected",
    ]


def test_few_pairs_are_not_costed():
    tables = {name: table(seed)[:100] for name, seed in (("a", 1), ("b", 2))}
    schemas = {name: one.schema for name, one in tables.items()}
    text = "SELECT a.id FROM a JOIN b ON a.k = b.k AND a.x < b.x"
    with open_device("cpu") as device:
        join = TableJoin(compile_select(text, schemas, QueryOptions(all_rows=True)), tables, device)
        list(join)
    (costed,) = join.costed.values()
    assert costed.lines() == []
    assert costed.outcome() == [f"all pairs for {costed.used.total()} rows"]
