"""Groups of pairs: values at the edges, and any cut into batches, against plain Python."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DataError, QueryError
from penstock.host.emit.groups.partial import PairGroups
from penstock.query import compile_query
from tests.kit.effort import examples

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("f", pa.float64()),
        ("h", pa.float32()),
        ("u", pa.uint64()),
        ("i", pa.int64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.int8())),
        ("d", pa.decimal32(5, 2)),
        ("e", pa.decimal64(15, 3)),
    ]
)


def groups_of(select: str, group: str) -> PairGroups:
    query = f"SELECT {select} FROM a JOIN b ON abs(a.t - b.t) < 5 GROUP BY {group}"
    schemas = {"a": SCHEMA, "b": SCHEMA}
    compiled = compile_query(query, schemas, time={"a": "t", "b": "t"})
    return PairGroups(compiled, {"l": SCHEMA, "r": SCHEMA})


def batch(groups: PairGroups, *columns: list) -> pa.RecordBatch:
    """Rows of the join that is grouped: its keys, then its values."""
    types = groups.select.keys.schema.types
    values = [one.value for one in groups.aggregation.aggregates if one.value is not None]
    types = [*types, *(SCHEMA.field(value.attr[1]).type for value in values)]
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in groups.pairs.select])


def plain(table: pa.RecordBatch) -> list[tuple]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_a_key_that_cannot_be_grouped() -> None:
    with pytest.raises(QueryError, match=r"a\.l is of type list<item: int8>: .* sorted or grouped"):
        groups_of("count(*) AS n", "a.l, b.t")


@pytest.mark.parametrize("key", ["d", "e"])
def test_groups_of_decimals_leave_in_order(key: str) -> None:
    groups = groups_of(f"a.{key} AS k", f"a.t, b.t, a.{key}")
    values = [None, Decimal(2), Decimal(-1), Decimal(0), Decimal(-3)]
    groups.add(groups.partial(batch(groups, [1] * 5, [2] * 5, values)))
    assert groups.leave(0, 2)["k"].to_pylist() == [-3, -1, 0, 2, None]


def test_a_sum_beyond_its_type_though_its_parts_are_not() -> None:
    groups = groups_of("sum(a.i) AS s", "a.s, b.s")
    for _ in range(3):
        groups.add(groups.partial(batch(groups, ["k"], ["k"], [1 << 62])))
    with pytest.raises(DataError, match=r"SUM\(a.i\) overflows integer"):
        groups.finish()


def test_a_sum_that_is_beyond_its_type_only_between_its_terms() -> None:
    groups = groups_of("sum(a.i) AS s, avg(a.u) AS m, max(a.u) AS x", "a.s, b.s")
    terms = [1 << 62, 1 << 62, 1 << 62, -(1 << 62), -(1 << 62), 5]
    large = [(1 << 64) - 1] * 6
    groups.add(groups.partial(batch(groups, ["k"] * 6, [None] * 6, terms, large, large)))
    assert plain(groups.finish()) == [((1 << 62) + 5, float((1 << 64) - 1), (1 << 64) - 1)]


def test_keys_are_equal_as_in_spark() -> None:
    groups = groups_of("a.f AS f, b.s AS s, count(*) AS n", "a.f, b.s")
    floats = [0.0, -0.0, math.nan, -math.nan, None, None, 1.0]
    texts = ["x", "x", None, None, "x", "x", "y"]
    groups.add(groups.partial(batch(groups, floats, texts)))
    found = {(repr(f), s): n for f, s, n in plain(groups.finish())}
    assert found == {("0.0", "x"): 2, ("nan", None): 2, ("None", "x"): 2, ("1.0", "y"): 1}


def test_what_is_below_the_limit_leaves_by_its_keys() -> None:
    groups = groups_of("a.t AS t, b.s AS s, count(*) AS n", "b.s, a.t")
    rows = batch(groups, ["b", "a", "b", "a", "a"], [1, 2, 1, 1, 9])
    groups.add(groups.partial(rows))
    assert plain(groups.leave(1, -math.inf)) == []
    assert plain(groups.leave(1, 9)) == [(1, "a", 1), (1, "b", 2), (2, "a", 1)]
    held = groups.nbytes
    groups.add(groups.partial(batch(groups, ["a", "c"], [9, 9])))
    assert groups.nbytes > held
    assert plain(groups.leave(1, math.inf)) == [(9, "a", 2), (9, "c", 1)]
    assert groups.nbytes == 0
    assert plain(groups.finish()) == []


FLOATS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, math.nan, math.inf, -1.5, 2.0, -3.0]))
INTS = st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-5, 5))
UNSIGNED = st.one_of(st.none(), st.integers(0, (1 << 64) - 1))
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2), FLOATS, FLOATS, UNSIGNED, INTS),
    max_size=30,
)


@settings(deadline=None, max_examples=examples(80))
@given(ROWS, st.lists(st.integers(1, 7), min_size=1, max_size=8))
def test_any_cut_gives_the_same(rows: list[tuple], cuts: list[int]) -> None:
    groups = groups_of(
        "a.s AS s, b.t AS t, count(*) AS n, min(a.f) AS lf, max(a.f) AS gf, min(b.h) AS lh, "
        "max(b.h) AS gh, min(a.u) AS lu, max(b.i) AS gi, avg(b.i) AS ai, count(a.u) AS cu",
        "a.s, b.t",
    )
    left = list(rows)
    for number in range(100):
        if not left:
            break
        part, left = left[: cuts[number % len(cuts)]], left[cuts[number % len(cuts)] :]
        s, t, f, h, u, i = ([row[k] for row in part] for k in range(6))
        groups.add(groups.partial(batch(groups, s, t, f, f, h, h, u, i, i, u)))
    found = {row[:2]: row[2:] for row in plain(groups.finish())}
    expected = {key: of(key, rows) for key in {row[:2] for row in rows}}
    assert {k: tuple(map(repr, v)) for k, v in found.items()} == {
        k: tuple(map(repr, v)) for k, v in expected.items()
    }


def of(key: tuple, rows: list[tuple]) -> tuple:
    own = [row for row in rows if row[:2] == key]
    f, h, u, i = ([row[k] for row in own if row[k] is not None] for k in range(2, 6))
    mean = float(Fraction(sum(i), len(i))) if i else None
    unsigned = (extreme(u, min), extreme(i, max), mean, len(u))
    floats = (extreme(f, min), extreme(f, max), extreme(h, min), extreme(h, max))
    return (len(own), *(v if v is None else v + 0.0 for v in floats), *unsigned)


def extreme(values: list, pick: Any) -> Any:
    """The least or the greatest, NaN above all others."""
    return pick(values, key=lambda v: (v != v, v), default=None)
