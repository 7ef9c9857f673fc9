"""Entries of rows: the compiled loop gives those that are computed column by column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.expr.columns import Vector
from penstock.host.devices.cpu.operations import NotCompilable
from penstock.host.keys.hashing import hash_groups
from penstock.host.routing.base import WORKER_CELLS, base_homes, cells_of_hashes
from penstock.host.state import GroupState
from penstock.host.state.compiled import CompiledContributions
from penstock.host.state.contributions import ColumnContributions
from penstock.host.state.entry_layout import EntryLayout
from penstock.host.state.texts import Texts
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_select
from tests.host.state.rows_by_hand import SCHEMA, batch_of, random_rows

#: Values of every operation, of every type that one word holds, and of some that need more.
VALUES = (
    "small + k",
    "small - 2 * k",
    "small * small * small",
    "-small",
    "abs(small) + abs(k)",
    "small % 7",
    "k % small",
    "k % CASE WHEN flag THEN small END",
    "f % g",
    "f + g * 2",
    "-f",
    "abs(f)",
    "least(small, k, 5)",
    "greatest(f, CAST(g AS DOUBLE))",
    "small & 12 | 3 ^ ~small",
    "CASE WHEN flag THEN small WHEN small > 3 THEN k ELSE 7 END",
    "CASE WHEN f > 1 THEN f END",
    "CASE WHEN name LIKE 'a%' THEN 1 WHEN code IN ('view', '') THEN 2 ELSE small END",
    "coalesce(small, k, 0)",
    "CASE WHEN flag IS NULL OR NOT flag AND small BETWEEN -5 AND 5 THEN 1 ELSE 0 END",
    "CASE WHEN small IN (1, 2, 3, 50, -7) THEN 1 ELSE 2 END",
    "CASE WHEN f = g THEN 1 WHEN f < g THEN 2 WHEN f <= g THEN 3 WHEN f <> g THEN 4 END",
    "CASE WHEN raw = X'01' THEN 1 WHEN raw <> X'02' THEN 2 END",
    "CAST(t AS DATE)",
    "date_trunc('hour', t)",
    "CAST(small AS DOUBLE) * 0.25",
    "price * 2",
    "price + small",
    "u % 10",
    "day",
    "huge - 1",
    "CAST(flag AS INT) + 1",
    "shiftleft(small, 3) + shiftright(small, 1)",
    "CAST(price AS DOUBLE)",
    "CASE WHEN small % 3 = 0 THEN NULL ELSE small END",
    "v + v",
    "v * 3",
)


def query_of(sql: str) -> GroupQuery:
    query = compile_select(sql, {"s": SCHEMA}, time={"s": "t"})
    assert isinstance(query, GroupQuery)
    return query


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        ("window(t, '7 seconds'), small % 3, name", VALUES[::2]),
        ("f, huge, flag, u, t", VALUES[1::2]),
    ],
    ids=["a window", "no window"],
)
@pytest.mark.parametrize("without_null", [False, True], ids=["NULLs", "no NULL"])
def test_compiled_entries_are_those_of_columns(
    keys: str, values: tuple[str, ...], without_null: bool
):
    shown = ", ".join(f"min({value}) AS m{k}" for k, value in enumerate(values))
    where = "WHERE small > -90 OR f IS NULL OR code = 'a'"
    sql = f"SELECT {shown}, min_by(raw, k) AS r, max_by(g, t) AS g FROM s {where} GROUP BY {keys}"
    query = query_of(sql)
    state = GroupState(query, SCHEMA)
    layout = state._layout
    columns = ColumnContributions(query, layout)
    compiled = CompiledContributions(query, layout, SCHEMA, 64, without_null=without_null)
    texts = Texts()
    for seed in range(3):
        rows = random_rows(np.random.default_rng(seed), 2000 if without_null else 300, -40, 100)
        if without_null:
            rows = [row for row in rows if None not in row.values()]
        for row in rows:
            row["v"] = None if row["v"] is None else row["v"] >> 20
        batch = batch_of(rows).slice(seed * 3)
        expected = columns.make(batch, texts, 100)
        assert compiled.fits(batch)
        found = [(c.entries.copy(), c) for c in compiled.make(batch, texts, 100, None)]
        entries = np.concatenate([entries for entries, _ in found])
        wrong = np.flatnonzero((entries != expected.entries).any(axis=0))
        assert not len(wrong), [p for p in layout.folds if p.offset in wrong]
        assert sum(c.filtered for _, c in found) == expected.filtered
        assert without_null or expected.filtered > 0
        assert sum(c.without_time for _, c in found) == expected.without_time


def test_a_batch_beyond_the_bounds_does_not_fit():
    query = query_of("SELECT k, min(v + v) AS m FROM s GROUP BY k")
    compiled = CompiledContributions(query, GroupState(query, SCHEMA)._layout, SCHEMA, 64)
    (row,) = random_rows(np.random.default_rng(0), 1, 0, 1)
    assert compiled.fits(batch_of([row | {"v": 1 << 60}]))
    assert not compiled.fits(batch_of([row | {"v": (1 << 63) - 1}]))
    assert compiled.fits(batch_of([row | {"v": None}]))
    narrow = batch_of([row | {"v": 1}]).select(["k", "v"])
    assert not compiled.fits(narrow)


@pytest.mark.parametrize("used", ["count(small)", "max(small)", "count_if(small > 0)"])
def test_a_null_anywhere_does_not_fit_a_loop_without(used: str):
    query = query_of(f"SELECT name, {used} AS m FROM s WHERE flag GROUP BY name")
    layout = GroupState(query, SCHEMA)._layout
    compiled = CompiledContributions(query, layout, SCHEMA, 64, without_null=True)
    rows = random_rows(np.random.default_rng(0), 2000, 0, 1)
    whole = next(row for row in rows if None not in row.values())
    assert compiled.fits(batch_of([whole]))
    assert compiled.fits(batch_of([whole | {"f": None}]))  # which is not read
    for name in ("name", "small", "flag"):
        assert not compiled.fits(batch_of([whole, whole | {name: None}]))


def test_a_part_that_may_fail_is_not_computed_before_where():
    query = query_of("SELECT CAST(f AS SMALLINT) AS n FROM s WHERE flag GROUP BY 1")
    layout = EntryLayout(query.aggregation.keys, None, (), SCHEMA)
    assert not CompiledContributions(query, layout, SCHEMA, 64).is_safe


@pytest.mark.parametrize(
    ("column", "values", "fast"),
    [
        ("k", np.arange(-500, 500) * (1 << 40), False),
        ("k", np.arange(-500, 500) * (1 << 40), True),
        ("f", np.arange(1000) / 7, True),
        ("small", np.arange(-100, 100), False),
        ("day", np.arange(10_000, 10_900), False),
    ],
)
def test_leaders_follow_the_hash_of_the_house(column: str, values: np.ndarray, fast: bool):
    query = query_of(f"SELECT {column}, flag, count(*) AS n FROM s GROUP BY {column}, flag")
    size = 7
    state = GroupState(query, SCHEMA, size=size)
    if fast:
        state.compile()
    field = SCHEMA.field(column)
    ints = {"small": pa.int8(), "day": pa.int32()}.get(column)
    arrays = [
        pa.array(values, ints).cast(field.type)
        if one.name == column
        else pa.nulls(len(values), one.type)
        for one in SCHEMA
    ]
    state.fold(pa.record_batch(arrays, schema=SCHEMA))
    keys = [Vector(values), Vector(np.zeros(len(values), bool), np.zeros(len(values), bool))]
    cells = cells_of_hashes(hash_groups(keys, len(values)), WORKER_CELLS)
    expected = np.bincount(base_homes(WORKER_CELLS, size)[cells], minlength=size)
    blocks = state.seal()
    others = [GroupState(query, SCHEMA, rank=r, size=size) for r in range(size)]
    counts = [
        state.entries if r == 0 else sum(others[r].merge(0, block) for block in blocks[r])
        for r in range(size)
    ]
    assert counts == expected.tolist()
    assert min(counts) > 0


def test_a_loop_of_too_many_steps_is_not_compiled():
    shown = ", ".join(f"min(small + {k}) AS m{k}" for k in range(200))
    query = query_of(f"SELECT {shown} FROM s GROUP BY k")
    layout = EntryLayout(query.aggregation.keys, None, query.aggregation.aggregates, SCHEMA)
    with pytest.raises(NotCompilable, match="more than 512 steps"):
        CompiledContributions(query, layout, SCHEMA, 64)
