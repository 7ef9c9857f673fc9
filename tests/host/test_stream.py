"""Running joins: exact for any batch cut, any interleaving and any disorder."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import DataError, SchemaError, UsageError
from penstock.host.device.base import Device
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.query import compile_query
from tests.host.kit.pruning import TINY
from tests.host.kit.streams import SCHEMA, STARTS, Feed, rows_join, time_join
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
TIME = {"a": "t", "b": "t"}
SEEDS = st.integers(0, 1 << 32)
SELECT = "SELECT a.n AS a, b.n AS b FROM a JOIN b ON"
PREDICATES = {
    "a.x = b.x": lambda x, y: x == y,
    "a.x <> b.x": lambda x, y: x != y,
    "a.x * b.x < 3": lambda x, y: x * y < 3,
    "1 = 1": lambda x, y: True,
}


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2, here=True) as opened:
        yield opened


def opened(device: Device, on: str, rows: object = None, time: object = None, **options):
    options.setdefault("disorder", 0)
    query = compile_query(f"{SELECT} {on}", SCHEMAS, time=TIME if time is None else time, rows=rows)
    return JoinStream(query, SCHEMAS, device, **options)


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def played(stream: JoinStream, feeds: dict[str, Feed], rng: Random) -> tuple[list, dict]:
    """Push all batches in some interleaving; the pairs, and the late rows per source."""
    todo = {name: feed.batches() for name, feed in feeds.items()}
    found: list = []
    late: dict[str, list[int]] = {name: [] for name in feeds}

    def collect(table: pa.Table) -> None:
        found.extend(pairs(table))
        for name, rows in stream.late().items():
            late[name] += rows["n"].to_pylist()

    with stream:
        while any(todo.values()):
            name = rng.choice([n for n, batches in todo.items() if batches])
            stream.push(name, todo[name].pop(0))
            if rng.random() < 0.3:
                collect(stream.poll())
        collect(stream.close())
    return found, late


WINDOWS = [
    ("abs(a.t - b.t) <= 3", 3, 3),
    ("b.t BETWEEN a.t - 1 AND a.t + 6", 1, 6),
    ("b.t BETWEEN a.t + 2 AND a.t + 5", -2, 5),
    ("b.t BETWEEN a.t - 7 AND a.t - 1", 7, -1),
    ("a.t = b.t", 0, 0),
    ("b.t >= a.t", 0, None),
    ("b.t <= a.t + 2", None, 2),
]


@settings(max_examples=examples(250), deadline=None)
@given(SEEDS, st.sampled_from(WINDOWS), st.sampled_from(list(PREDICATES)))
def test_time_windows(device: Device, seed: int, window: tuple, predicate: str) -> None:
    rng = Random(seed)
    start = rng.choice(STARTS)
    feeds = {name: Feed.drawn(rng, 60, start) for name in "ab"}
    on, before, after = window
    disorder = {name: feed.disorder for name, feed in feeds.items()}
    flow = Flow(running=Running(pruning=rng.choice((True, TINY))))
    stream = opened(device, f"{on} AND {predicate}", disorder=disorder, flow=flow)
    found, late = played(stream, feeds, rng)
    wanted = time_join(feeds["a"], feeds["b"], before, after, PREDICATES[predicate])
    assert sorted(found) == wanted
    for name, feed in feeds.items():
        assert set(late[name]) == feed.late()
        assert len(late[name]) == stream.stats.late[name]
        known = [row for row in feed.rows if row[1] is not None]
        assert len(feed.admitted()) + len(late[name]) == len(known)
    assert stream.stats.rows == len(found)


@settings(max_examples=examples(150), deadline=None)
@given(SEEDS, st.sampled_from([(1, 1), (3, 3), (2, 7), (40, 1)]), st.sampled_from(list(PREDICATES)))
def test_rows_in_time_order(device: Device, seed: int, sizes: tuple, predicate: str) -> None:
    rng = Random(seed)
    start = rng.choice(STARTS)
    feeds = {name: Feed.drawn(rng, 50, start) for name in "ab"}
    for feed in feeds.values():
        feed.rows = [(n, start if t is None else t, x) for n, t, x in feed.rows]
    disorder = {name: feed.disorder for name, feed in feeds.items()}
    rows = dict(zip("ab", sizes, strict=True))
    flow = Flow(running=Running(pruning=rng.choice((True, TINY))))
    stream = opened(device, predicate, rows=rows, disorder=disorder, flow=flow)
    found, late = played(stream, feeds, rng)
    merged = [
        (t, place, row)
        for place, name in enumerate("ab")
        for row in feeds[name].admitted()
        for t in [row[1]]
    ]
    merged.sort(key=lambda item: item[:2])
    wanted = rows_join([(p, row) for _, p, row in merged], sizes, PREDICATES[predicate])
    assert sorted(found) == wanted
    assert {name: set(rows) for name, rows in late.items()} == {
        name: feed.late() for name, feed in feeds.items()
    }


@settings(max_examples=examples(100), deadline=None)
@given(SEEDS, st.sampled_from([(1, 1), (2, 7), (40, 3)]))
def test_rows_in_order_of_arrival(device: Device, seed: int, sizes: tuple) -> None:
    rng = Random(seed)
    start = rng.choice(STARTS)
    feeds = {name: Feed.drawn(rng, 50, start) for name in "ab"}
    stream = opened(device, "a.x <> b.x", rows=dict(zip("ab", sizes, strict=True)), time={})
    arrivals, found = [], []
    todo = {name: feed.batches() for name, feed in feeds.items()}
    with stream:
        while any(todo.values()):
            name = rng.choice([n for n, batches in todo.items() if batches])
            batch = todo[name].pop(0)
            stream.push(name, batch)
            arrivals += [("ab".index(name), tuple(row.values())) for row in batch.to_pylist()]
            found += pairs(stream.poll())
        assert not pairs(stream.close())
    assert sorted(found) == rows_join(arrivals, sizes, PREDICATES["a.x <> b.x"])


# -- promises and memory --------------------------------------------------------------------------


def batch(*rows: tuple) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )


def test_rows_that_nothing_can_meet_are_forgotten(device: Device) -> None:
    stream = opened(device, "abs(a.t - b.t) <= 10 AND a.x = b.x", disorder=5)
    for step in range(200):
        for name in "ab":
            stream.push(name, batch(*((k, step * 4 + k % 4, k % 3) for k in range(20))))
        # Half of a run may be rows that wait to be dropped together.
        assert stream.window_rows < 2 * 2 * 20 * (10 + 5 + 4 + 4)
    stream.close()
    assert stream.window_rows == 0


def test_a_signal_frees_rows_and_makes_later_ones_late(device: Device) -> None:
    stream = opened(device, "abs(a.t - b.t) <= 10 AND a.x = b.x")
    stream.push("a", batch((1, 5, 0), (2, 6, 0)))
    assert stream.window_rows == 2
    stream.advance("b", 100)
    assert stream.window_rows == 0
    stream.advance("b", 50)  # older than an earlier one: changes nothing
    stream.push("b", batch((1, 99, 0), (2, 100, 0)))
    assert [t.num_rows for t in stream.late().values()] == [0, 1]
    assert [t.num_rows for t in stream.late().values()] == [0, 0]
    assert stream.stats.late == {"a": 0, "b": 1}
    stream.close()


def test_a_signal_releases_rows_that_wait_for_their_order(device: Device) -> None:
    stream = opened(device, "a.x = b.x", rows=5)
    stream.push("a", batch((1, 5, 0)))
    stream.push("b", batch((7, 6, 0)))
    assert stream.poll().num_rows == 0
    stream.advance("a", 7)
    stream.advance("b", 7)
    assert pairs(stream.poll()) == [(1, 7)]
    stream.close()


def test_a_moment_as_datetime() -> None:
    schema = pa.schema([("ts", pa.timestamp("ms")), ("x", pa.int32())])
    on = "abs(a.ts - b.ts) <= INTERVAL 1 SECOND"
    second = datetime.timedelta(seconds=1)
    with penstock.stream(
        f"SELECT a.x FROM a JOIN b ON {on}", {"a": schema, "b": schema}, disorder=second
    ) as stream:
        start = datetime.datetime(2020, 1, 1)
        stream.push("a", pa.RecordBatch.from_pylist([{"ts": start, "x": 1}], schema=schema))
        stream.advance("a", start + 5 * second)
        late = pa.RecordBatch.from_pylist([{"ts": start + 4 * second, "x": 1}], schema=schema)
        stream.push("a", late)
        assert stream.late()["a"].num_rows == 1
        assert stream.close().num_rows == 0


def test_whole_tables_and_empty_batches(device: Device) -> None:
    stream = opened(device, "abs(a.t - b.t) <= 10 AND a.x = b.x")
    rows = pa.Table.from_batches([batch((1, 5, 0)), batch((2, 6, 0))])
    stream.push("A", rows)
    stream.push("b", rows.slice(0, 0))
    stream.push("b", pa.Table.from_batches([], SCHEMA))
    stream.push("B", rows.select(["x", "t", "n"]))
    assert sorted(pairs(stream.close())) == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_close_gives_the_rest_once(device: Device) -> None:
    stream = opened(device, "abs(a.t - b.t) <= 10 AND a.x = b.x")
    stream.push("a", batch((1, 5, 0)))
    stream.push("b", batch((1, 5, 0)))
    assert stream.close().num_rows == 1
    assert stream.close().num_rows == 0
    assert stream.poll().schema == stream.schema


# -- errors ---------------------------------------------------------------------------------------


def test_use_after_close(device: Device) -> None:
    stream = opened(device, "abs(a.t - b.t) <= 10")
    stream.close()
    with pytest.raises(UsageError, match="the stream is closed; open a new one"):
        stream.push("a", batch())
    with pytest.raises(UsageError, match="the stream is closed"):
        stream.advance("a", 5)


def test_wrong_uses(device: Device) -> None:
    stream = opened(device, "abs(a.t - b.t) <= 10 AND a.x = b.x")
    with pytest.raises(UsageError, match="unknown source 'c'; the query joins a and b"):
        stream.push("c", batch())
    with pytest.raises(SchemaError, match="a batch of a has no column t"):
        stream.push("a", batch().select(["n", "x"]))
    changed = batch((1, 5, 0)).set_column(2, "x", pa.array([1 << 40], pa.int64()))
    with pytest.raises(SchemaError, match="column x of a batch of a is int64, but the stream was"):
        stream.push("a", changed)
    with pytest.raises(UsageError, match="is a plain integer; give time as an integer"):
        stream.advance("a", datetime.datetime(2020, 1, 1))
    stream.close()
    with pytest.raises(UsageError, match="disorder of a must not be negative, not -1"):
        opened(device, "abs(a.t - b.t) <= 10", disorder=-1)
    with pytest.raises(UsageError, match="disorder is given for c, but the query joins a and b"):
        opened(device, "abs(a.t - b.t) <= 10", disorder={"c": 5})
    with pytest.raises(UsageError, match="is a plain integer; give disorder as an integer"):
        opened(device, "abs(a.t - b.t) <= 10", disorder=datetime.timedelta(seconds=1))


def test_rows_in_order_of_arrival_have_no_time(device: Device) -> None:
    stream = opened(device, "a.x = b.x", rows=5, time={})
    with pytest.raises(UsageError, match="a has no time column, so its time cannot advance"):
        stream.advance("a", 5)
    stream.close()


def test_a_row_without_time_has_no_place_among_rows(device: Device) -> None:
    stream = opened(device, "a.x = b.x", rows=5)
    with pytest.raises(DataError, match="row 1 of a has no time, so it has no place"):
        stream.push("a", batch((1, 5, 0), (2, None, 0)))
    stream.close()


def test_rows_without_time_may_be_filtered_out(device: Device) -> None:
    query = compile_query(f"{SELECT} a.x = b.x WHERE a.t IS NOT NULL", SCHEMAS, time=TIME, rows=5)
    stream = JoinStream(query, SCHEMAS, device)
    stream.push("a", batch((1, None, 0), (2, 4, 0)))
    stream.push("b", batch((3, 5, 0)))
    assert pairs(stream.close()) == [(2, 3)]


@pytest.mark.parametrize("on", ["{} >= b.x", "{} * b.x < 5000 AND a.x = b.x"])
def test_a_refused_batch_costs_no_row_that_waits(device: Device, on: str) -> None:
    stream = opened(device, on.format("CAST(1000 * a.x AS SMALLINT)"), rows=5)
    stream.push("a", batch((1, 5, 1)))
    stream.push("b", batch((7, 6, 1)))
    with pytest.raises(DataError, match="overflows"):
        stream.push("a", batch((2, 90, 99)))
    stream.push("a", batch((3, 8, 1)))
    assert sorted(pairs(stream.close())) == [(1, 7), (3, 7)]
    assert stream.stats.late == {"a": 0, "b": 0}


@pytest.mark.parametrize("place", ["filter", "window key", "stream bound"])
def test_a_refused_batch_leaves_no_trace(device: Device, place: str) -> None:
    narrow = "CAST(1000 * a.x AS SMALLINT)"
    on = {
        "filter": f"a.x = b.x AND {narrow} >= 0",
        "window key": f"{narrow} >= b.x AND a.x = b.x",
        "stream bound": f"{narrow} >= b.x AND a.x = b.x",
    }[place]
    stream = opened(device, f"abs(a.t - b.t) <= 10 AND {on}")
    if place == "stream bound":
        stream.push("b", batch((9, 5, 1)))
    with pytest.raises(DataError, match="overflows"):
        stream.push("a", batch((1, 90, 99), (2, 4, 1)))
    assert stream.stats.late == {"a": 0, "b": 0}
    stream.push("a", batch((3, 5, 1)))
    if place != "stream bound":
        stream.push("b", batch((9, 5, 1)))
    assert pairs(stream.close()) == [(3, 9)]
