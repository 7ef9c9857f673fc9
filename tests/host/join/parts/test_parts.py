"""Joins with parts: however the rows are dealt out, the result is that of the whole tables."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS
from penstock.host.execute.running import Running
from penstock.host.join.parts.groups import GroupParts, merged_groups, part_join
from penstock.host.join.parts.join import ExistenceParts, HeldSide, PairParts
from penstock.host.join.table.table_join import TableJoin
from penstock.plan.query import LEFT, RIGHT, JoinKind, JoinQuery, other
from penstock.program import GeneralProgram
from penstock.query.compiler import compile_query
from tests.host.kit.faulty import FaultyDevice
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

TIME = {"l": "t", "r": "t"}
WINDOWS = ("r.t BETWEEN l.t - 6 AND l.t + 4", "r.t >= l.t - 3", "r.t <= l.t")
PREDICATES = ("abs(l.x - r.x) < 3", "l.y < r.y", "l.x * r.x > 6", "l.x > 0")
KINDS = {
    "JOIN": (LEFT, RIGHT),
    "LEFT JOIN": (LEFT,),
    "RIGHT JOIN": (RIGHT,),
    "LEFT SEMI JOIN": (LEFT,),
    "LEFT ANTI JOIN": (LEFT,),
}
AGGREGATES = (
    ("l.g", "count(*) AS a, sum(r.x) AS b, avg(r.d) AS c, min(r.f) AS d, max(l.x - r.x) AS e"),
    ("l.s, l.g", "count(l.x) AS a, sum(l.y) AS b, min(l.x) AS c, count(r.x) AS d, avg(l.f) AS e"),
    ("r.g", "min_by(l.id, abs(l.x - r.x)) AS a, max_by(l.s, l.y) AS b, count(*) AS c"),
    ("l.g, r.s", "sum(l.x * r.y) AS a, max(r.f) AS b, avg(l.d) AS c"),
    ("", "count(*) AS a, sum(r.y) AS b, min_by(r.id, r.f) AS c"),
)


class WithBandsOnly(InterpretingCpu):
    """Finds pairs by search keys, but cannot test a predicate of any form."""

    def refuses(self, program, modes=PAIRS):
        return "a general predicate" if isinstance(program, GeneralProgram) else None


@pytest.fixture(scope="module")
def device():
    with InterpretingCpu(threads=1) as opened:
        yield opened


def table(rng: np.random.Generator, rows: int) -> pa.Table:
    def some(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(rows) < 0.15)

    cents = rng.integers(0, 999, rows)
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "g": some(rng.integers(0, 4, rows)),
            "t": some(rng.integers(0, 40, rows)),
            "x": some(rng.integers(-9, 10, rows)),
            "y": pa.array(rng.integers(-99, 100, rows).astype(np.int16)),
            "f": some(rng.integers(-20, 20, rows) / 4),
            "d": pa.array([Decimal(int(v)) / 100 for v in cents], pa.decimal128(9, 2)),
            "s": some(np.array(["a", "b", "c"])[rng.integers(0, 3, rows)]),
        }
    )


def query_of(text: str, tables: dict[str, pa.Table]) -> JoinQuery:
    return compile_query(text, {name: t.schema for name, t in tables.items()}, time=TIME)


def rows_of(batches: list[pa.RecordBatch]) -> Counter:
    def plain(value):
        return round(float(value), 6) if isinstance(value, float | Decimal) else value

    rows = [row for batch in batches for row in batch.to_pylist()]
    return Counter(tuple(plain(v) for v in row.values()) for row in rows)


def dealt(query, tables, device, held, lanes, parts, rng) -> list[pa.RecordBatch]:
    """Output with the held side in lanes, and the other side in parts to all of them."""
    window = other(held)
    schemas = {side: t.schema for side, t in tables.items()}
    own = rng.integers(0, lanes, tables[held].num_rows)
    cuts = np.sort(rng.integers(0, tables[window].num_rows + 1, parts - 1))
    cuts = [0, *cuts, tables[window].num_rows]
    found: list[pa.RecordBatch] = []
    groups = None if query.aggregation is None else merged_groups(query, schemas)
    for lane in range(lanes):
        mine = np.flatnonzero(own == lane)
        side = HeldSide(query, held, tables[held].take(pa.array(mine)), place=mine)
        join = part_join(query)(query, side, schemas, device, output_rows=7)
        for low, high in pairwise(cuts):
            place = np.arange(low, high)
            found += join.add(tables[window].slice(low, high - low), place)
        rest = list(join.finish())
        if groups is None:
            found += rest
        else:
            assert isinstance(join, GroupParts)
            groups.add(pa.Table.from_batches(rest, join.groups.schema))
    assert all(batch.num_rows <= 7 for batch in found)
    return found if groups is None else [groups.finish()]


dealings = {
    "seed": st.integers(0, 1000),
    "lanes": st.integers(1, 4),
    "parts": st.integers(1, 4),
    "window": st.sampled_from(WINDOWS),
    "predicate": st.sampled_from(PREDICATES),
}
SHORT = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@SHORT
@given(kind=st.sampled_from(sorted(KINDS)), first=st.booleans(), **dealings)
def test_pairs_and_rows(device, seed, lanes, parts, window, predicate, kind, first):
    rng = np.random.default_rng(seed)
    tables = {"l": table(rng, 25), "r": table(rng, 30)}
    select = "l.id AS i, l.s" if "SEMI" in kind or "ANTI" in kind else "l.id AS i, r.id AS j, r.s"
    text = f"SELECT {select} FROM l {kind} r ON {window} AND {predicate}"
    query = query_of(text, tables)
    held = KINDS[kind][0 if first else -1]
    whole = list(TableJoin(query, tables, device))
    assert rows_of(dealt(query, tables, device, held, lanes, parts, rng)) == rows_of(whole)


@SHORT
@given(of=st.sampled_from(AGGREGATES), held=st.sampled_from([LEFT, RIGHT]), **dealings)
def test_groups(device, seed, lanes, parts, window, predicate, of, held):
    rng = np.random.default_rng(seed)
    tables = {"l": table(rng, 25), "r": table(rng, 30)}
    by, select = of
    keys = "" if not by else f"{by}, ".replace("l.g, r.s", "l.g AS lg, r.s AS rs")
    text = f"SELECT {keys}{select} FROM l JOIN r ON {window} AND {predicate}"
    query = query_of(f"{text} GROUP BY {by}" if by else text, tables)
    whole = list(TableJoin(query, tables, device))
    assert rows_of(dealt(query, tables, device, held, lanes, parts, rng)) == rows_of(whole)


@pytest.mark.parametrize("kind", [*KINDS, "GROUP BY"])
def test_pairs_that_a_device_cannot_test_are_tested_here(kind):
    rng = np.random.default_rng(3)
    tables = {"l": table(rng, 25), "r": table(rng, 30)}
    select = "l.id AS i" if "SEMI" in kind or "ANTI" in kind else "l.id AS i, r.id AS j"
    text = f"SELECT {select} FROM l {kind} r ON {WINDOWS[0]} AND abs(l.x - r.x) < 3"
    text += " AND l.x * r.x > 2"
    if kind == "GROUP BY":
        text = text.replace(kind, "JOIN").replace(" FROM", ", count(*) AS n FROM")
        text += " GROUP BY l.id, r.id"
    query = query_of(text, tables)
    held = KINDS.get(kind, (LEFT,))[0]
    with InterpretingCpu(threads=1) as able, WithBandsOnly(threads=1) as device:
        whole = rows_of(list(TableJoin(query, tables, able)))
        assert rows_of(dealt(query, tables, device, held, 2, 2, rng)) == whole


def test_of_equally_near_rows_in_two_parts_the_first_of_the_input_counts(device):
    left = pa.table({"g": [7], "t": [5], "x": [0]})
    right = pa.table({"id": [1, 8, 2], "t": [5, 1, 5], "x": [3, 9, -3]})
    text = "SELECT l.g, min_by(r.id, abs(l.x - r.x)) AS a FROM l JOIN r ON abs(l.t - r.t) < 9"
    query = query_of(f"{text} AND abs(l.x - r.x) < 99 GROUP BY l.g", {"l": left, "r": right})
    schemas = {"l": left.schema, "r": right.schema}
    join = part_join(query)(query, HeldSide(query, LEFT, left), schemas, device)
    for rows, place in ((right.slice(0, 1), [5]), (right.slice(1), [1, 3])):
        assert list(join.add(rows, np.array(place))) == []
    groups = merged_groups(query, schemas)
    groups.add(pa.Table.from_batches(list(join.finish()), groups.schema))
    assert groups.finish().to_pylist() == [{"g": 7, "a": 2}]


def test_a_full_join_is_one_of_pairs_and_one_of_rows(device):
    rng = np.random.default_rng(5)
    tables = {"l": table(rng, 40), "r": table(rng, 30)}
    schemas = {side: t.schema for side, t in tables.items()}
    text = f"SELECT l.id AS i, r.id AS j FROM l FULL JOIN r ON {WINDOWS[0]} AND {PREDICATES[0]}"
    query = query_of(text, tables)
    assert query.kind is JoinKind.FULL
    found = []
    for join_type, held in ((PairParts, LEFT), (ExistenceParts, RIGHT)):
        join = join_type(query, HeldSide(query, held, tables[held]), schemas, device)
        found += join.add(tables[other(held)])
        found += join.finish()
    whole = list(TableJoin(query, tables, device))
    assert rows_of(found) == rows_of(whole)
    assert (None,) in {key[:1] for key in rows_of(found)}


ROWS = {
    "JOIN": "l.id AS i, r.id AS j",
    "LEFT JOIN": "l.id AS i, r.id AS j",
    "LEFT ANTI JOIN": "l.id AS i",
    "LEFT SEMI JOIN": "l.id AS i",
    "of one side": "l.g, count(*) AS n, min_by(r.id, abs(l.x - r.x)) AS near",
    "of both": "l.g AS lg, r.g AS rg, count(*) AS n",
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("lanes", [1, 3])
def test_rows_with_places_that_are_only_taken(device, kind, lanes):
    """Each lane gets the rows that its own ones may meet, and the places between them."""
    rng = np.random.default_rng(lanes)
    tables = {}
    for name, count in (("l", 60), ("r", 70)):
        made = table(rng, count)
        tables[name] = made.filter(made.column("t").is_valid()).sort_by("t")
    schemas = {side: t.schema for side, t in tables.items()}
    by = {"of one side": " GROUP BY l.g", "of both": " GROUP BY l.g, r.g"}.get(kind, "")
    word = "JOIN" if by else kind
    text = f"SELECT {ROWS[kind]} FROM l {word} r ON abs(l.x - r.x) < 6{by}"
    query = compile_query(text, schemas, time=TIME, rows={"l": 5, "r": 8})
    groups = None if query.aggregation is None else merged_groups(query, schemas)
    found = []
    bounds = [-1, *np.linspace(0, 40, lanes + 1)[1:-1].astype(int), 1000]
    for low, high in pairwise(bounds):
        times = {side: t.column("t").to_numpy() for side, t in tables.items()}
        later = np.flatnonzero(times["l"] >= high)[:5]
        last = times["l"][later[-1]] if len(later) == 5 else 1000
        earlier = np.flatnonzero(times["r"] < low)[-8:]
        first = times["r"][earlier[0]] if len(earlier) == 8 else -1
        mine = tables["l"].filter(pa.array((times["l"] >= low) & (times["l"] <= last)))
        place = np.flatnonzero((times["l"] >= low) & (times["l"] <= last))
        others = np.flatnonzero((times["r"] >= first) & (times["r"] <= last))
        held = HeldSide(query, "l", mine, owned=(low, high), place=place)
        join = part_join(query)(query, held, schemas, device)
        found += join.add(tables["r"].take(pa.array(others)), others)
        if groups is None:
            found += join.finish()
        else:
            groups.add(pa.Table.from_batches(list(join.finish()), groups.schema))
    if groups is not None:
        found = [groups.finish()]
    assert rows_of(found) == rows_of(list(TableJoin(query, tables, device)))


def test_a_part_meets_only_the_held_rows_in_its_reach(device):
    held = pa.table({"t": pa.array(np.arange(1000)), "id": pa.array(np.arange(1000))})
    tables = {"l": held, "r": held}
    query = query_of("SELECT l.id AS i FROM l JOIN r ON r.t BETWEEN l.t - 2 AND l.t + 3", tables)
    side = HeldSide(query, "l", held)
    assert side.reach(np.arange(100, 110)) == slice(97, 112)
    assert side.reach(np.arange(0)) == slice(0, 0)


def test_what_was_evaluated_is_counted_though_the_device_failed(device):
    """A caller that joins a part again elsewhere must know whether rows of it have left."""
    ones = pa.table({"t": pa.array(np.arange(3000)), "id": pa.array(np.arange(3000))})
    tables = {"l": ones, "r": ones}
    query = query_of("SELECT l.id AS i FROM l JOIN r ON abs(l.t - r.t) <= 2000", tables)
    schemas = {side: t.schema for side, t in tables.items()}
    fates = iter(["ok"])
    running = Running(task_evaluations=100_000)
    with FaultyDevice(device, lambda: next(fates, "error")) as faulty:
        held = HeldSide(query, LEFT, tables["l"])
        join = PairParts(query, held, schemas, faulty, pruning=None, running=running)
        given = []
        with pytest.raises(DeviceError, match="AXI error"):
            given.extend(join.add(tables["r"]))
    assert given
    assert join.stats.pairs_evaluated > 0
