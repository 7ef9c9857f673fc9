"""Joins of tables without a window, with an equality and other comparisons: who runs them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.api import around
from penstock.api.around import _pairs_of_columns
from penstock.around import parts, splitting
from penstock.query.options import KeptQueries

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
EQUAL = ("a.k = b.k", "a.k = b.j", "a.t = b.t AND a.k = b.k", "b.f = a.f", "a.k = b.f")
OTHER = (
    "a.lo <= b.hi AND b.lo <= a.hi",
    "abs(a.f - b.f) < 0.5",
    "abs(a.lo - b.lo) + abs(a.hi - b.hi) < 9",
    "a.lo < b.lo AND a.hi > b.hi",
    "a.lo < b.lo AND a.f > b.f AND a.t <> b.t",
    "greatest(a.lo, b.lo) < least(a.hi, b.hi)",
    "a.lo < b.hi AND b.lo < a.hi AND (a.f < b.f OR a.t < b.t)",
)
#: The short run has the first.
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]


def table(rng: np.random.Generator, rows: int) -> pa.Table:
    """Few values of each column, NULL, NaN, infinities and both zeros among them."""

    def drawn(values: list[Any], form: pa.DataType) -> pa.Array:
        return pa.array([values[n] for n in rng.integers(0, len(values), rows)], form)

    special = [None, np.nan, 0.0, -0.0, 1.0, 2.0, 2.25, 3.0, np.inf, -np.inf]
    lows = rng.integers(0, 40, rows)
    return pa.table(
        {
            "k": drawn([None, *range(6)], pa.int32()),
            "j": drawn([None, *range(5)], pa.int64()),
            "t": drawn([None, "", "a", "ab", "b"], pa.string()),
            "f": drawn(special, pa.float64()),
            "lo": pa.array(lows, pa.int32()),
            "hi": pa.array(lows + rng.integers(0, 9, rows), pa.int64()),
            "id": pa.array(range(rows), pa.int32()),
        }
    )


def run(text: str, a: pa.Table, b: pa.Table) -> Counter[tuple[Any, ...]]:
    rows = penstock.sql(text, {"a": a, "b": b})
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Penstock run each such join, however few pairs it has."""
    monkeypatch.setattr(parts, "MANY_PAIRS", (-1, -1))
    monkeypatch.setattr(around, "_kept", KeptQueries())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_the_same_whoever_runs_the_join(kind, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    a, b = table(rng, 60), table(rng, 40)
    output = "a.id AS x" if kind.endswith(("SEMI JOIN", "ANTI JOIN")) else "a.id AS x, b.id AS y"
    for equal in EQUAL:
        others = rng.choice(OTHER, 2, replace=False)
        for other in others:
            text = f"SELECT {output} FROM a {kind} b ON {equal} AND {other}"
            with monkeypatch.context() as forced:
                always(forced)
                rows = run(text, a, b)
            assert rows == run(text, a, b), text
            known = text.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
            assert rows == Counter(duckdb.sql(known).fetchall()), text


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_are_the_same_whoever_runs_the_join(seed, monkeypatch):
    rng = np.random.default_rng(100 + seed)
    a, b = table(rng, 60), table(rng, 40)
    for other in rng.choice(OTHER, 4, replace=False):
        text = (
            "SELECT a.t AS t, count(*) AS n, sum(b.lo) AS s, max(b.f) AS m FROM a JOIN b "
            f"ON a.k = b.k AND {other} GROUP BY a.t HAVING count(*) > 1"
        )
        with monkeypatch.context() as forced:
            always(forced)
            rows = run(text, a, b)
        assert repr(sorted(rows.items(), key=repr)) == repr(
            sorted(run(text, a, b).items(), key=repr)
        ), text


def evaluations(text: str, a: pa.Table, b: pa.Table, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What was decided for each join with an equality and something else."""
    decisions: list[bool] = []
    decide = splitting._Splitter._has_many_pairs

    def noted(*args: Any) -> bool:
        decisions.append(decide(*args))
        return decisions[-1]

    monkeypatch.setattr(splitting._Splitter, "_has_many_pairs", noted)
    monkeypatch.setattr(around, "_kept", KeptQueries())
    penstock.sql(text, {"a": a, "b": b})
    return decisions


@pytest.mark.parametrize(
    ("keys", "other", "expected"),
    [
        (4, "a.lo <= b.hi AND b.lo <= a.hi", [True]),
        (20_000, "a.lo <= b.hi AND b.lo <= a.hi", [False]),
        (200, "a.lo <= b.hi AND b.lo <= a.hi", [False]),
        (200, "greatest(a.lo, b.lo) <= least(a.hi, b.hi)", [True]),
        (4, "a.lo <= b.hi AND b.lo <= a.hi LIMIT 9", []),
        (4, "a.lo <= b.hi AND b.lo <= a.hi WHERE a.lo < 5000", [False]),
        (4, "a.lo <= b.hi AND b.lo <= a.hi WHERE a.lo < 500000", [True]),
        (4, "a.lo <= b.hi AND b.lo <= a.hi AND a.lo < 5000", [False]),
        (4, "a.lo <= b.hi AND b.lo <= a.hi ORDER BY x LIMIT 9", [True]),
        (4, "a.lo < b.hi - 9000000", [True]),
        (4, "(a.lo = b.hi OR a.hi = b.lo)", [True]),
        (20_000, "a.lo <> b.lo", [False]),
        (4, "a.lo > 10000000", [False]),
    ],
)
def test_a_join_is_penstocks_where_an_equality_leaves_many_pairs(
    keys, other, expected, monkeypatch
):
    rng = np.random.default_rng(5)

    def intervals(rows: int) -> pa.Table:
        lows = rng.integers(0, 10**7, rows)
        return pa.table({"k": rng.integers(0, keys, rows), "lo": lows, "hi": lows + 5})

    text = f"SELECT a.lo AS x, b.lo AS y FROM a JOIN b ON a.k = b.k AND {other}"
    assert evaluations(text, intervals(20_000), intervals(10_000), monkeypatch) == expected


def test_names_may_have_capitals(monkeypatch):
    always(monkeypatch)
    a = pa.table({"Key 1": [1, 2, 2], "Lo": [1, 5, 9], "Id": [0, 1, 2]})
    b = pa.table({"K": [1, 2], "HI": [2, 6], "Id": [0, 1]})
    text = (
        "SELECT a.Id AS x, b.Id AS y FROM a JOIN b "
        "ON a.`Key 1` = b.K AND a.Lo < b.HI AND a.Lo > b.HI - 2"
    )
    assert run(text, a, b) == Counter([(0, 0), (1, 1)])


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_of_equal_columns_are_counted(seed):
    rng = np.random.default_rng(200 + seed)
    sizes, columns = rng.integers(0, 80, 2), rng.integers(1, 9)
    kinds = [pa.int8(), pa.string(), pa.float64(), pa.bool_(), pa.timestamp("us")]
    types = [kinds[n] for n in rng.integers(0, len(kinds), columns)]
    a, b = (
        pa.table(
            {
                f"{side}{n}": pa.array(rng.integers(0, 3, rows), mask=rng.random(rows) < 0.1)
                .cast(pa.int64())
                .cast(dtype)
                for n, dtype in enumerate(types)
            }
        )
        for side, rows in zip("ab", sizes, strict=True)
    )
    keys = [(f"A{n}", f"B{n}") for n in range(columns)]
    pairs = sum(x == y and None not in x for x in rows_of(a) for y in rows_of(b))
    assert _pairs_of_columns([a, b], keys) == pairs
    others = pa.table({name: pa.array([], pa.uint64()) for name in b.column_names})
    assert _pairs_of_columns([a, others], keys) is None
    nested = pa.table({"a0": [[1]]}), pa.table({"b0": [[1]]})
    assert _pairs_of_columns(nested, keys[:1]) is None
    assert _pairs_of_columns([a, b], []) is None


def rows_of(one: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in one.columns), strict=True))
