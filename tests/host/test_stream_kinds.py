"""Outer, semi and anti joins of streams: brute force over the admitted rows, for any batch cut."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.base import Device
from penstock.host.emit.output import Gatherer, RowsByArrival
from penstock.host.execute.running import Running
from penstock.host.join.session import Session
from penstock.host.join.stream import Flow, JoinStream
from penstock.query import compile_query
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.pruning import TINY
from tests.host.kit.streams import SCHEMA, STARTS, Feed, batch_of, rows_join, time_join
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
TIME = {"a": "t", "b": "t"}
SEEDS = st.integers(0, 1 << 32)
KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
WINDOWS = [
    ("abs(a.t - b.t) <= 3", 3, 3),
    ("b.t BETWEEN a.t + 2 AND a.t + 5", -2, 5),
    ("b.t BETWEEN a.t - 7 AND a.t - 1", 7, -1),
    ("b.t >= a.t", 0, None),
    ("b.t <= a.t + 2", None, 2),
]
Pair = tuple[int | None, ...]


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


def text(kind: str, on: str) -> str:
    output = "a.n AS a" if kind in ("LEFT SEMI", "LEFT ANTI") else "a.n AS a, b.n AS b"
    return f"SELECT {output} FROM a {kind} JOIN b ON {on}"


def expected_of(kind: str, pairs: list[tuple[int, int]], left: list, right: list) -> list[Pair]:
    """What a join of this kind gives, by the pairs and the admitted rows of the sides."""
    matched = {p[0] for p in pairs}, {p[1] for p in pairs}
    alone_left = [n for n in left if n not in matched[0]]
    alone_right = [n for n in right if n not in matched[1]]
    found: list[Pair] = {
        "LEFT SEMI": [(n,) for n in matched[0]],
        "LEFT ANTI": [(n,) for n in alone_left],
    }.get(kind, list(pairs))
    if kind in ("LEFT", "FULL"):
        found += [(n, None) for n in alone_left]
    if kind in ("RIGHT", "FULL"):
        found += [(None, n) for n in alone_right]
    return sorted(found, key=repr)


def rows(table: pa.Table) -> list[Pair]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def played(stream: JoinStream, feeds: dict[str, Feed], rng: Random) -> tuple[list, list]:
    """Push all batches in some interleaving; the rows, and which batch came from where."""
    todo = {name: feed.batches() for name, feed in feeds.items()}
    order: list[tuple[str, int]] = []
    found: list[Pair] = []
    while any(todo.values()):
        name = rng.choice([n for n, batches in todo.items() if batches])
        batch = todo[name].pop(0)
        order += [(name, n) for n in batch["n"].to_pylist()]
        stream.push(name, batch)
        if rng.random() < 0.3:
            found += rows(stream.poll())
    return found + rows(stream.close()), order


FLOWS = st.builds(
    lambda latency, ordered, work, pruning: Flow(
        latency_s=latency,
        running=Running(ordered=ordered, task_evaluations=work, pruning=pruning),
    ),
    st.sampled_from([0.0, 0.001]),
    st.booleans(),
    st.sampled_from([3, 1 << 20]),
    st.sampled_from([True, TINY]),
)


@settings(deadline=None, max_examples=examples(150))
@given(SEEDS, st.sampled_from(KINDS), st.sampled_from(WINDOWS), FLOWS)
def test_time_windows(device: Device, seed: int, kind: str, window: tuple, flow: Flow) -> None:
    on, before, after = window
    rng = Random(seed)
    start = rng.choice(STARTS)
    feeds = {name: Feed.drawn(rng, 40, start) for name in "ab"}
    query = compile_query(text(kind, f"{on} AND a.x = b.x"), SCHEMAS, time=TIME)
    fates = [rng.choice(("ok", "ok", "error")) for _ in range(6)]
    bad = FaultyDevice(device, lambda: fates.pop() if fates else "ok")
    stream = JoinStream(
        query,
        SCHEMAS,
        [bad, device],
        disorder={name: feed.disorder for name, feed in feeds.items()},
        flow=flow,
    )
    found, _ = played(stream, feeds, rng)
    pairs = time_join(feeds["a"], feeds["b"], before, after, lambda x, y: x == y)
    there = [[row[0] for row in feed.rows if row[0] not in feed.late()] for feed in feeds.values()]
    assert sorted(found, key=repr) == expected_of(kind, pairs, *there)
    assert stream.window_rows == 0 or window[1] is None or window[2] is None


@settings(deadline=None, max_examples=examples(100))
@given(SEEDS, st.sampled_from(KINDS), st.tuples(st.integers(1, 4), st.integers(1, 4)), FLOWS)
def test_rows_in_order_of_arrival(
    device: Device, seed: int, kind: str, sizes: tuple[int, int], flow: Flow
) -> None:
    rng = Random(seed)
    feeds = {name: Feed.drawn(rng, 25) for name in "ab"}
    query = compile_query(text(kind, "a.x = b.x"), SCHEMAS, rows={"a": sizes[0], "b": sizes[1]})
    stream = JoinStream(query, SCHEMAS, device, flow=flow)
    found, order = played(stream, feeds, rng)
    arrivals = [("ab".index(name), feeds[name].rows[n]) for name, n in order]
    pairs = rows_join(arrivals, sizes, lambda x, y: x == y)
    there = [[row[0] for row in feed.rows] for feed in feeds.values()]
    assert sorted(found, key=repr) == expected_of(kind, pairs, *there)


def test_a_row_leaves_when_its_window_closes(device: Device) -> None:
    query = compile_query(text("LEFT", "abs(a.t - b.t) <= 3 AND a.x = b.x"), SCHEMAS, time=TIME)
    with JoinStream(query, SCHEMAS, device) as stream:
        stream.push("a", batch_of([(1, 10, 0), (2, 10, 1)]))
        stream.push("b", batch_of([(1, 10, 0), (2, 13, 5)]))
        assert rows(stream.poll()) == [(1, 1)]
        stream.push("b", batch_of([(3, 14, 5)]))
        assert rows(stream.poll()) == [(2, None)]


def test_a_push_returns_when_its_rows_can_be_polled(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the moment before, when its batch is complete and its rows are on their way out."""
    complete, drained = threading.Event(), threading.Event()
    add, drain = Gatherer.add, Session.drain

    def adding(gatherer: Gatherer, number: int, made: list[RowsByArrival]) -> list[RowsByArrival]:
        leaving = add(gatherer, number, made)
        complete.set()
        drained.wait(0.2)  # it must not come while the rows are held back here
        return leaving

    def draining(session: Session, room_s: float | None = None) -> None:
        complete.wait(0 if not session.outstanding else 10)
        drain(session, room_s)
        drained.set()

    query = compile_query(text("LEFT", "abs(a.t - b.t) <= 3 AND a.x = b.x"), SCHEMAS, time=TIME)
    with JoinStream(query, SCHEMAS, device) as stream:
        stream.push("a", batch_of([(1, 10, 0)]))
        monkeypatch.setattr(Gatherer, "add", adding)
        monkeypatch.setattr(Session, "drain", draining)
        drained.clear()
        stream.push("b", batch_of([(1, 10, 0)]))
        assert rows(stream.poll()) == [(1, 1)]
        monkeypatch.undo()


def test_a_row_without_a_time_leaves_at_once(device: Device) -> None:
    query = compile_query(text("LEFT", "abs(a.t - b.t) <= 3 AND a.x = b.x"), SCHEMAS, time=TIME)
    with JoinStream(query, SCHEMAS, device) as stream:
        stream.push("a", batch_of([(1, None, 0)]))
        assert rows(stream.poll()) == [(1, None)]


def test_unmatched_rows_follow_in_order(device: Device) -> None:
    flow = Flow(running=Running(ordered=True, task_evaluations=1))
    query = compile_query(text("FULL", "abs(a.t - b.t) <= 3 AND a.x = b.x"), SCHEMAS, time=TIME)
    stream = JoinStream(query, SCHEMAS, device, disorder=5, flow=flow)
    stream.push("a", batch_of([(1, 10, 0), (2, 8, 7), (3, 9, 8)]))
    stream.push("b", batch_of([(1, 10, 0), (2, 7, 5)]))
    stream.push("a", batch_of([(4, 30, 9)]))
    stream.push("b", batch_of([(3, 30, 4)]))
    assert rows(stream.close()) == [(1, 1), (None, 2), (2, None), (3, None), (4, None), (None, 3)]
