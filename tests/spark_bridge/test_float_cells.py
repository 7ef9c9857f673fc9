"""Bands of floats: rows that match lie in cells that reach each other, however they are rounded."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock
from penstock.plan.routing_keys import routing_keys
from penstock.query.compiler import compile_query
from penstock.query.options import QueryOptions
from penstock.spark_bridge.compiled import Compiled
from penstock.spark_bridge.routing_cells import CellOf, bounds_of
from tests.kit.effort import examples

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("t", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("k", pa.int32()),
    ]
)
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
TIME = {"a": "t", "b": "t"}
BANDS = {
    "abs(a.f - b.f) < 1": (-1, 1),
    "abs(b.g - a.g) <= 0.5": (-0.5, 0.5),
    "a.f BETWEEN b.f - 1 AND b.f + 2": (-2, 1),
    "b.f - a.f <= 3 AND a.f - b.f <= 4": (-4, 3),
    "abs(a.f * 2 - b.f * 3) < 1": (-1, 1),
    "abs(a.k - b.f) < 3": (-3, 3),
    "a.g + 1 - b.g BETWEEN CAST(-2 AS FLOAT) AND CAST(7 AS FLOAT)": (-6, 3),
    "abs(a.f + a.g - b.f) < 1": (-1, 1),
    "a.f - 1e9 <= b.f - 1e9 AND b.f <= a.f + 1": (0, 1),
}
#: Without a band: one end is missing, a key is on one side, NaN would match everything.
NONE = [
    "a.f - b.f < 1",
    "abs(a.f - b.f) < a.g",
    "abs(a.f + b.f) < 1",
    "b.f <= a.f + 1 AND 0 <= b.f - a.f",
    "abs(a.f - b.f) < 1e300",
]


@cache  # it is the same for each of the random rows
def compiled(on: str) -> Compiled:
    return Compiled(text_of(on), SCHEMAS, QueryOptions(time=TIME))


def text_of(on: str) -> str:
    return f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON {on} AND b.t BETWEEN a.t - 5 AND a.t"


@pytest.mark.parametrize("on", BANDS)
def test_ends(on):
    keys = routing_keys(compile_query(text_of(on), SCHEMAS, time=TIME).predicate)
    assert keys is not None
    assert keys.band is not None
    assert keys.band == pytest.approx(BANDS[on], abs=1e-3)
    assert keys.band[0] <= BANDS[on][0]
    assert keys.band[1] >= BANDS[on][1]


@pytest.mark.parametrize("on", NONE)
def test_no_bands(on):
    assert routing_keys(compile_query(text_of(on), SCHEMAS, time=TIME).predicate) is None


LARGE = float(np.finfo(np.float64).max)
VALUES = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-40, 40).map(lambda n: n / 8),
    st.sampled_from([math.inf, -math.inf, math.nan, -0.0, LARGE, -LARGE, 3.4e38, -3.4e38, 1e16]),
    st.builds(lambda x, n: x + n / 8, st.sampled_from([1e9, 1e15, 2.0**24]), st.integers(-40, 40)),
)
COLUMN = st.lists(VALUES, min_size=1, max_size=12)


def rows_of(values: list[float | None]) -> pa.Table:
    count = len(values)
    with np.errstate(over="ignore"):
        single = [None if v is None else float(np.float32(v)) for v in values]
    whole = [None if v is None or not abs(v) < 2**31 else int(v) for v in values]
    return pa.table([list(range(count)), [0] * count, values, single, whole], schema=SCHEMA)


@pytest.mark.parametrize("on", BANDS)
@settings(deadline=None, max_examples=examples(100))
@given(COLUMN, COLUMN, COLUMN)
@example([math.inf, 1.0], [LARGE, math.nan], [math.inf])
@example([-math.inf, -1.0, math.nan], [-LARGE, math.nan, -math.inf], [-math.inf, 0.0])
def test_rows_that_match_reach_each_other(on, left, right, quantiles):
    tables = {"a": rows_of(left), "b": rows_of(right)}
    of = CellOf(compiled(on), 64)
    cut = rows_of(quantiles)
    values = of.values("l", [cut.column(n).combine_chunks() for n in of.names("l")])
    known = [v for v in values.to_pylist() if v is not None]
    of = CellOf(of.compiled, 64, bounds_of(known))
    cells = {
        side: of(side, [tables[name].column(n).combine_chunks() for n in of.names(side)])
        for side, name in (("l", "a"), ("r", "b"))
    }
    low, high = of.reach("l", cells["l"])
    back = of.reach("r", cells["r"])
    for pair in penstock.sql(text_of(on), tables, time=TIME).to_pylist():
        i, j = pair["i"], pair["j"]
        assert low[i] <= cells["r"][j] <= high[i]
        assert back[0][j] <= cells["l"][i] <= back[1][j]


def test_a_band_reaches_neighbouring_cells_alone():
    bounds = tuple(sorted(np.arange(0.5, 100).view(np.int64).tolist()))
    on = "abs(a.f - b.f) < 0.5"
    of = CellOf(compiled(on), 64, bounds)
    low, high = of.reach("l", np.arange(of.cells))
    assert set((high - low)[2:-3].tolist()) == {2}
    assert low[0] == 0
    assert high[-2] == of.cells - 1
