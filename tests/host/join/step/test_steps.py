"""Joins in steps: what a join of the whole tables gives, for any cut into steps and any lanes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import QueryError
from penstock.host.device.base import Device
from penstock.host.join.step import Frontier, Share, StepOutput
from penstock.host.rows.sides import Loaded, read_side
from penstock.plan.plan import plan
from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import NEVER
from penstock.query import compile_query
from tests.host.kit.steps import TIME, Memory, check
from tests.host.kit.streams import SCHEMA, batch_of
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
SEEDS = st.integers(0, 1 << 32)
KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
WINDOWS = (
    "abs(a.t - b.t) <= 3",
    "b.t BETWEEN a.t + 2 AND a.t + 5",
    "b.t BETWEEN a.t - 7 AND a.t - 1",
    "b.t >= a.t",
    "b.t <= a.t + 2",
)
GROUPS = (
    ("SELECT a.t AS t, count(*) AS k FROM a JOIN b ON {} GROUP BY a.t", {}),
    ("SELECT b.t - b.t % 5 AS t, sum(a.x) AS s FROM a JOIN b ON {} GROUP BY b.t - b.t % 5", {}),
    ("SELECT a.x AS k, b.t AS t, max(a.n) AS m FROM a JOIN b ON {} GROUP BY a.x, b.t", {}),
    (
        "SELECT a.n AS n, count(*) AS k, min_by(b.n, abs(a.t - b.t)) AS m FROM a JOIN b ON {} "
        "GROUP BY a.n",
        {"a": "n"},
    ),
)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=1) as opened:
        yield opened


def text(kind: str, on: str) -> str:
    output = "a.n AS a" if kind in ("LEFT SEMI", "LEFT ANTI") else "a.n AS a, b.n AS b"
    return f"SELECT {output} FROM a {kind} JOIN b ON {on}"


@settings(deadline=None, max_examples=examples(60))
@given(SEEDS, st.sampled_from(KINDS), st.sampled_from(WINDOWS), st.integers(1, 3))
def test_time_windows(device: Device, seed: int, kind: str, window: str, lanes: int) -> None:
    query = compile_query(text(kind, f"{window} AND a.x = b.x"), SCHEMAS, time=TIME)
    memory = check(query, {}, seed, lanes, device)
    if window == WINDOWS[0]:
        assert not any(memory.blocks.values())


@settings(deadline=None, max_examples=examples(40))
@given(
    SEEDS,
    st.sampled_from(KINDS),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.integers(1, 3),
)
def test_rows_windows(
    device: Device, seed: int, kind: str, sizes: tuple[int, int], lanes: int
) -> None:
    rows = dict(zip("ab", sizes, strict=True))
    query = compile_query(text(kind, "a.x = b.x"), SCHEMAS, time=TIME, rows=rows)
    check(query, {"rows": rows}, seed, lanes, device)


@settings(deadline=None, max_examples=examples(40))
@given(SEEDS, st.sampled_from(GROUPS), st.sampled_from(WINDOWS[:3]), st.integers(1, 3))
def test_groups(device: Device, seed: int, group: tuple, window: str, lanes: int) -> None:
    sql, unique = group[0].format(f"{window} AND a.x <= b.x"), group[1]
    query = compile_query(sql, SCHEMAS, time=TIME, unique=unique)
    check(query, {}, seed, lanes, device)


@settings(deadline=None, max_examples=examples(15))
@given(SEEDS, st.integers(1, 3))
def test_groups_of_single_rows_over_rows(device: Device, seed: int, lanes: int) -> None:
    sql = "SELECT a.n AS n, count(*) AS k FROM a JOIN b ON a.x <= b.x GROUP BY a.n"
    query = compile_query(sql, SCHEMAS, time=TIME, rows=3, unique={"a": "n"})
    check(query, {"rows": 3}, seed, lanes, device)


def test_little_is_kept(device: Device) -> None:
    """Blocks are forgotten as soon as no later row can meet theirs."""
    query = compile_query(text("FULL", "abs(a.t - b.t) <= 3"), SCHEMAS, time=TIME)
    memory = Memory(query)
    before = {LEFT: NEVER, RIGHT: NEVER}
    for k in range(50):
        table = pa.Table.from_batches([batch_of([(k, 10 * k, 0)])])
        for own in memory.query.sides:
            memory.now[own.side] = Loaded.of_table(own, table, read_side(memory.query, own, table))
        after = {LEFT: 10 * k, RIGHT: 10 * k}
        rows = [
            row
            for b in StepOutput(query, device, before, after).run(memory)
            for row in b.to_pylist()
        ]
        assert rows == [{"a": k, "b": k}]
        memory.end(Frontier(memory.query, after))
        assert [len(own) for own in memory.blocks.values()] == [1, 1]
        before = after


def test_groups_of_one_time_are_in_several_lanes(device: Device) -> None:
    sql = (
        "SELECT a.t - a.t % 100 AS t, a.x AS x, count(*) AS k FROM a JOIN b ON a.x = b.x "
        "AND abs(a.t - b.t) <= 3 GROUP BY a.t - a.t % 100, a.x"
    )
    query = compile_query(sql, SCHEMAS, time=TIME)
    memory = Memory(query)
    table = pa.Table.from_batches([batch_of([(k, 10, k % 20) for k in range(100)])])
    for own in memory.query.sides:
        memory.now[own.side] = Loaded.of_table(own, table, read_side(memory.query, own, table))
    step = StepOutput(query, device, {LEFT: NEVER, RIGHT: NEVER}, {LEFT: 500, RIGHT: 500})
    lanes = [
        [row["x"] for batch in step.run(memory, Share(lane, 3)) for row in batch.to_pylist()]
        for lane in range(3)
    ]
    assert sorted(x for own in lanes for x in own) == list(range(20))
    assert all(lanes)


@pytest.mark.parametrize(
    ("sql", "options", "message"),
    [
        ("SELECT a.n FROM a JOIN b ON a.x = b.x", {"rows": 3, "time": None}, "time column of both"),
        (
            "SELECT a.t, count(*) AS k FROM a JOIN b ON a.x = b.x GROUP BY a.t",
            {"rows": 3},
            "unique",
        ),
        (
            "SELECT a.x, count(*) AS k FROM a JOIN b ON a.t = b.t AND a.x = b.x GROUP BY a.x",
            {},
            "add the event time to GROUP BY",
        ),
    ],
)
def test_what_has_no_steps(sql: str, options: dict, message: str) -> None:
    query = compile_query(sql, SCHEMAS, **{"time": TIME, **options})
    with pytest.raises(QueryError, match=message):
        plan(query).require_stepwise()
