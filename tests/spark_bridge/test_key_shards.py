"""Cells of keys on lanes: which pairs meet where, and what lanes have to do; without a session."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.plan.routing_keys import routing_keys
from penstock.query.compiler import compile_query
from penstock.query.options import QueryOptions
from penstock.spark_bridge.batch.key_plan import CellRows, KeyPlan
from penstock.spark_bridge.batch.key_shards import KeyRoutes
from penstock.spark_bridge.compiled import Compiled
from penstock.spark_bridge.key_choice import require_keys, why_not_by_keys
from penstock.spark_bridge.routing_cells import NO_CELL, CellOf, imbalance

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("k", pa.int32()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
    ]
)
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
TIME = {"a": "t", "b": "t"}
WINDOW = "b.t BETWEEN a.t - 5 AND a.t"


def query_of(on: str, **options):
    return compile_query(f"SELECT a.t FROM a JOIN b ON {on} AND {WINDOW}", SCHEMAS, **options)


@pytest.mark.parametrize(
    ("on", "text"),
    [
        ("a.k = b.k", "a.k = b.k"),
        ("b.s = a.s AND a.k < b.k AND a.k + 1 = b.k", "b.s = a.s AND (a.k + 1) = b.k"),
        ("a.k = b.f", "cast(a.k as float64) = b.f"),
        ("a.d = b.k", "a.d = (b.k * 100)"),
        ("a.k - b.k = 0", "(a.k - b.k) = 0"),
        ("abs(a.k - b.k) < 3", "abs(a.k - b.k) < 3"),
        ("abs(a.k - b.d) < 3", "abs((a.k * 100) - b.d) < 300"),
        ("abs(a.f - b.g) < 1", "abs(a.f - cast(b.g as float64)) < 1.0"),
    ],
)
def test_conjuncts_that_deal_rows(on, text):
    query = query_of(on, time=TIME)
    keys = routing_keys(query.predicate)
    assert keys is not None
    assert keys.text(query.names) == text
    assert why_not_by_keys(query, None) is None


@pytest.mark.parametrize("on", ["(a.k = b.k OR a.s = b.s)", "a.k < b.k", "a.f - b.f < 1"])
def test_conditions_without_such_a_conjunct(on):
    with pytest.raises(UsageError, match=r"no conjunct .*f\(a\) = g\(b\).*; add one with AND"):
        require_keys(query_of(on, time=TIME), None)


def test_rows_windows_have_no_keys():
    query = compile_query("SELECT a.t FROM a JOIN b ON a.k = b.k", SCHEMAS, rows=9)
    with pytest.raises(UsageError, match="count rows of all keys; leave partitioning"):
        require_keys(query, None)


def cell_of(on: str, where: str = "") -> CellOf:
    text = f"SELECT a.t FROM a JOIN b ON {on} AND {WINDOW}{where}"
    return CellOf(Compiled(text, SCHEMAS, QueryOptions(time=TIME)), 64)


def test_equal_keys_of_different_types_have_one_cell():
    of = cell_of("a.k = b.f AND a.f = b.g AND a.d = b.k AND a.s = b.s AND a.b = b.b")
    columns = {"k": [1, 7, 2], "f": [0.0, float("nan"), 2.0], "d": [3, 4, 5], "s": ["", "é", "ab"]}
    columns |= {"b": [True, False, True]}
    left = pa.table(columns, schema=pa.schema([SCHEMA.field(n) for n in of.names("l")]))
    columns = {"f": columns["k"], "g": [-0.0, float("nan"), 2.0], "k": columns["d"]}
    columns |= {"s": ["", "é", "ab"], "b": [True, False, True]}
    right = pa.table(columns, schema=pa.schema([SCHEMA.field(n) for n in of.names("r")]))
    found = [
        of(side, [column.combine_chunks() for column in rows.columns])
        for side, rows in (("l", left), ("r", right))
    ]
    assert found[0].tolist() == found[1].tolist()
    assert len(set(found[0].tolist())) > 1


def test_null_keys_have_one_cell_and_rows_that_where_leaves_out_none():
    of = cell_of("CAST(a.f AS INT) = b.k", " WHERE a.k > 0")
    assert of.names("l") == ["f", "k"]
    arrays = [pa.array([7.0, 1e99, None, 1e99, 7.5]), pa.array([1, 0, 2, None, 3], pa.int32())]
    found = of("l", arrays).tolist()
    # The number of a row that is left out would not fit.
    assert found[1:4] == [NO_CELL, 64, NO_CELL]
    assert found[0] == found[4] == of("r", [pa.array([7], pa.int32())])[0]


CELLS = 16


@st.composite
def sides(draw):
    """Cells of the rows of both sides, skewed, some NULL, and what the join must keep."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    skew = draw(st.floats(0, 3))
    shares = np.arange(1, CELLS + 2.0) ** -skew
    rows = {
        side: rng.choice(
            rng.permutation(CELLS + 1), draw(st.integers(0, 200)), p=shares / shares.sum()
        )
        for side in "lr"
    }
    decided = draw(st.sampled_from([None, "l", "r"]))
    keeps_null = decided is not None and draw(st.booleans())
    return rng, rows, decided, keeps_null


PLANNERS = st.sampled_from(["mnrt", "qmmp", "hash"])


@settings(deadline=None)
@given(sides(), st.integers(1, 9), PLANNERS, st.sampled_from([0.0, 0.05, 0.5]))
def test_each_pair_meets_once_and_each_decided_row_is_in_one_lane(given_rows, lanes, planner, over):
    rng, cells, decided, keeps_null = given_rows
    of = replace(cell_of("a.k = b.k"), hashed=CELLS)
    counts = {side: np.bincount(own, minlength=CELLS + 1) for side, own in cells.items()}
    rows = CellRows.counted(of, counts, decided, keeps_null)
    made = KeyPlan.balanced(of, rows, 0.3, lanes, planner, over)
    if planner != "hash":
        assert made.plan.loads.by_lane.max() <= made.plan.limit
    routes = KeyRoutes(of, made.plan.table, rows.is_left, keeps_null)
    found = {}
    for side, own in cells.items():
        hashes = rng.integers(-(1 << 63), 1 << 63, len(own))
        offsets, values = routes.lanes(side, own, hashes)
        assert offsets[0] == 0
        assert offsets[-1] == len(values)
        found[side] = [set(values[a:b].tolist()) for a, b in pairwise(offsets)]
        # No row is sent to a lane twice.
        assert [len(lanes) for lanes in found[side]] == np.diff(offsets).tolist()
        for cell, to in zip(own, found[side], strict=True):
            divided = rows.is_left[cell] == (side == "l")
            if cell == CELLS:
                assert len(to) == (divided and keeps_null)
            elif divided:
                assert len(to) == 1
            else:
                assert len(to) >= 1
    for left, at in zip(cells["l"], found["l"], strict=True):
        for right, to in zip(cells["r"], found["r"], strict=True):
            if left == right != CELLS:
                assert len(at & to) == 1


def test_shares_of_a_split_cell_by_hash():
    """All rows have one key: what the plan says is what lanes get, but for the chance of hashes."""
    of = replace(cell_of("a.k = b.k"), hashed=CELLS)
    left, right = np.zeros(CELLS + 1, np.int64), np.zeros(CELLS + 1, np.int64)
    left[3], right[3] = 80_000, 50
    rows = CellRows.counted(of, {"l": left, "r": right}, None, False)
    made = KeyPlan.balanced(of, rows, 1.0, 8, "mnrt", 0.05)
    routes = KeyRoutes(of, made.plan.table, rows.is_left, False)
    hashes = np.random.default_rng(1).integers(-(1 << 63), 1 << 63, 80_000)
    _, lanes = routes.lanes("l", np.full(80_000, 3), hashes)
    got = np.bincount(lanes, minlength=8)
    assert np.abs(got - made.by_lane["l"]).max() < 5 * 10_000**0.5
    assert made.by_lane["r"].tolist() == [50.0] * 8
    assert made.moved == 80_400
    assert imbalance(made.plan.loads) <= 1.05


def test_a_cell_is_not_split_for_rows_that_a_split_would_copy():
    """The join decides about ten rows, which meet many: lanes would all get those."""
    of = replace(cell_of("a.k = b.k"), hashed=CELLS)
    left, right = np.zeros(CELLS + 1, np.int64), np.full(CELLS + 1, 100)
    left[:CELLS], right[3] = 100, 100_000
    left[3] = 10
    made = KeyPlan.balanced(
        of, CellRows.counted(of, {"l": left, "r": right}, "l", False), 0.0, 4, "mnrt", 0.05
    )
    assert 3 not in made.plan.table.split
    free = KeyPlan.balanced(
        of, CellRows.counted(of, {"l": left, "r": right}, None, False), 0.0, 4, "mnrt", 0.05
    )
    assert not free.rows.is_left[3]
    assert 3 in free.plan.table.split


@settings(deadline=None)
@given(st.data(), st.integers(1, 9), PLANNERS)
def test_rows_in_a_band_meet_once(data, lanes, planner):
    """Any bounds of cells, any plan: each pair that the band ties meets in one lane."""
    low, high = sorted(data.draw(st.tuples(st.integers(-40, 40), st.integers(-40, 40))))
    bounds = tuple(sorted(data.draw(st.sets(st.integers(-90, 90), max_size=12))))
    of = replace(cell_of(f"b.k - a.k BETWEEN {low} AND {high}"), bounds=bounds)
    assert of.keys.band == (low, high)
    numbers = st.lists(st.none() | st.integers(-100, 100), max_size=60)
    values = {side: data.draw(numbers) for side in "lr"}
    cells = {side: of(side, [pa.array(own, pa.int32())]) for side, own in values.items()}
    counts = {side: np.bincount(own, minlength=of.cells + 1) for side, own in cells.items()}
    divided = data.draw(st.sampled_from("lr"))
    rows = CellRows.counted(of, counts, divided, False)
    made = KeyPlan.balanced(of, rows, 0.3, lanes, planner, 0.05)
    routes = KeyRoutes(of, made.plan.table, rows.is_left, False)
    hashes = np.random.default_rng(len(values["l"])).integers(-(1 << 63), 1 << 63, 60)
    found = {}
    for side, own in cells.items():
        offsets, to = routes.lanes(side, own, hashes[: len(own)])
        found[side] = [set(to[a:b].tolist()) for a, b in pairwise(offsets)]
    pairs = [
        (a, b) for a in values["l"] for b in values["r"]
        if a is not None and b is not None and low <= b - a <= high
    ]  # fmt: skip
    assert rows.pairs.sum() >= len(pairs)
    assert made.moved == sum(len(to) for own in found.values() for to in own)
    for a, at in zip(values["l"], found["l"], strict=True):
        for b, to in zip(values["r"], found["r"], strict=True):
            if a is not None and b is not None and low <= b - a <= high:
                assert len(at & to) == 1
            else:
                assert len(at & to) <= 1
