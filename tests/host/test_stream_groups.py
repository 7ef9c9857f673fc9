"""Groups of streams: what the same query gives on tables of the admitted rows, for any cut."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import DataError, QueryError
from penstock.host.device.base import Device
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.query import compile_query
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.pruning import TINY
from tests.host.kit.streams import SCHEMA, STARTS, Feed, batch_of
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
TIME = {"a": "t", "b": "t"}
SEEDS = st.integers(0, 1 << 32)
WINDOWS = [
    "abs(a.t - b.t) <= 3",
    "b.t BETWEEN a.t + 2 AND a.t + 5",
    "b.t BETWEEN a.t - 7 AND a.t - 1",
    "b.t >= a.t",
]
#: GROUP BY, and the output columns of its keys; {s} is the side.
KEYS = [
    ("{s}.n", "{s}.n"),
    ("{s}.n, {s}.t", "{s}.n, {s}.t"),
    ("{s}.x, {s}.t", "{s}.x, {s}.t"),
    ("window({s}.t, 4), {s}.x", "window.start, window.end, {s}.x"),
    ("window({s}.t, 5, 5, 2)", "window.end - 1"),
    ("{s}.t - {s}.t % 3, {s}.x > 1", "{s}.t - {s}.t % 3, {s}.x > 1"),
]
#: The same with keys of both sides, {o} is the other; such groups have no best pair.
KEYS_OF_BOTH = [
    ("{s}.t, {s}.n, {o}.n", "{o}.n, {s}.n"),
    ("window({s}.t, 4), {o}.x", "window.start, {o}.x"),
    ("{s}.x + {o}.x, window({o}.t, 7)", "window.end, {s}.x + {o}.x"),
]
AGGREGATES = [
    "count(*)",
    "count({o}.x)",
    "count_if({o}.n % 2 = 0)",
    "sum({o}.n * {s}.x)",
    "min({o}.n)",
    "max({o}.n - {s}.n)",
    "avg({o}.x)",
    "sum({s}.n)",
    "min_by({o}.n, abs({s}.t - {o}.t))",
    "max_by({o}.n + {s}.n, {o}.x)",
]


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


FLOWS = st.builds(
    lambda latency, work, pruning: Flow(
        latency_s=latency, running=Running(task_evaluations=work, pruning=pruning)
    ),
    st.sampled_from([0.0, 0.001]),
    st.sampled_from([3, 1 << 20]),
    st.sampled_from([False, TINY]),
)


def text(rng: Random, side: str, on: str, *, having: bool, both: bool = False) -> str:
    other = "ab".replace(side, "")
    chosen_keys = rng.choice(KEYS_OF_BOTH if both else KEYS)
    group, keys = (part.format(s=side, o=other) for part in chosen_keys)
    known = [a for a in AGGREGATES if not (both and "_by" in a)]
    chosen = rng.sample(known, rng.randint(0, 3))
    columns = [*re.split(", ", keys), *(a.format(s=side, o=other) for a in chosen)]
    select = ", ".join(f"{column} AS c{k}" for k, column in enumerate(columns))
    after = " HAVING count(*) > 1" if having else ""
    return f"SELECT {select} FROM a JOIN b ON {on} GROUP BY {group}{after}"


def played(stream: JoinStream, feeds: dict[str, Feed], rng: Random) -> list[tuple]:
    todo = {name: feed.batches() for name, feed in feeds.items()}
    found: list[tuple] = []
    while any(todo.values()):
        name = rng.choice([n for n, batches in todo.items() if batches])
        stream.push(name, todo[name].pop(0))
        if rng.random() < 0.3:
            found += rows(stream.poll())
    return found + rows(stream.close())


def rows(table: pa.Table) -> list[tuple]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def on_tables(query: str, feeds: dict[str, Feed], device: Device, **options: object) -> list[tuple]:
    tables = {
        name: pa.Table.from_batches([batch_of(feed.admitted())] if feed.admitted() else [], SCHEMA)
        for name, feed in feeds.items()
    }
    return rows(penstock.sql(query, tables, device=device, time=TIME, **options))  # type: ignore[arg-type]


@settings(deadline=None, max_examples=examples(60))
@given(SEEDS, st.sampled_from("ab"), st.sampled_from(WINDOWS), st.booleans(), st.booleans(), FLOWS)
# Windows close beyond the end of 64 bits, when no row waits.
@example(68, "b", "b.t BETWEEN a.t + 2 AND a.t + 5", False, False, Flow(latency_s=0.0))
def test_groups_over_time_windows(
    device: Device, seed: int, side: str, window: str, having: bool, both: bool, flow: Flow
) -> None:
    rng = Random(seed)
    start = rng.choice(STARTS)
    feeds = {name: Feed.drawn(rng, 40, start) for name in "ab"}
    query = text(rng, side, f"{window} AND a.x <= b.x", having=having, both=both)
    fates = [rng.choice(("ok", "ok", "error")) for _ in range(6)]
    bad = FaultyDevice(device, lambda: fates.pop() if fates else "ok")
    stream = JoinStream(
        compile_query(query, SCHEMAS, time=TIME, unique={side: "n"}),
        SCHEMAS,
        [bad, device],
        disorder={name: feed.disorder for name, feed in feeds.items()},
        flow=flow,
    )
    found, expected = played(stream, feeds, rng), on_tables(query, feeds, device)
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    if not both and f"BY {side}.n" not in query:  # groups leave by their first row, as in tables
        assert repr(found) == repr(expected)


@settings(deadline=None, max_examples=examples(30))
@given(SEEDS, st.sampled_from("ab"), st.tuples(st.integers(1, 4), st.integers(1, 4)), FLOWS)
def test_groups_over_rows(
    device: Device, seed: int, side: str, sizes: tuple[int, int], flow: Flow
) -> None:
    rng = Random(seed)
    start = rng.choice(STARTS)
    feeds = {name: Feed.drawn(rng, 30, start) for name in "ab"}
    for feed in feeds.values():
        feed.rows = [row for row in feed.rows if row[1] is not None]
        feed.cuts = [1] * len(feed.rows)
    query = text(rng, side, "a.x <= b.x", having=False)
    count = dict(zip("ab", sizes, strict=True))
    stream = JoinStream(
        compile_query(query, SCHEMAS, time=TIME, rows=count, unique={side: "n"}),
        SCHEMAS,
        device,
        disorder={name: feed.disorder for name, feed in feeds.items()},
        flow=flow,
    )
    found = played(stream, feeds, rng)
    expected = on_tables(query, feeds, device, rows=count)
    assert sorted(found, key=repr) == sorted(expected, key=repr)


GROUPS = "SELECT a.n, count(*) AS c FROM a JOIN b ON abs(a.t - b.t) <= 3 AND a.x = b.x GROUP BY a.n"
WINDOWED = (
    "SELECT window.start AS t, sum(b.n) AS s FROM a JOIN b ON b.t BETWEEN a.t AND a.t + 2 "
    "GROUP BY window(a.t, 10)"
)


def opened(query: str, device: Device, **options: object) -> JoinStream:
    compiled = compile_query(query, SCHEMAS, time=TIME, unique={"a": "n"})
    return JoinStream(compiled, SCHEMAS, device, **options)  # type: ignore[arg-type]


def test_a_row_leaves_when_its_window_closes(device: Device) -> None:
    with opened(GROUPS, device) as stream:
        stream.push("a", batch_of([(1, 10, 0), (2, 10, 7)]))
        stream.push("b", batch_of([(1, 9, 0), (2, 13, 0)]))
        assert rows(stream.poll()) == []
        stream.push("b", batch_of([(3, 14, 0)]))
        assert rows(stream.poll()) == [(1, 2)]
        assert stream.report().memory_bytes["windows"] > 0
    assert rows(stream.close()) == []
    assert stream.window_rows == 0


def test_pairs_of_the_window_count_once_however_many_folds_test_them(device: Device) -> None:
    text = (
        "SELECT a.n, count(*) AS c, sum(b.x) AS s, min_by(b.n, abs(a.t - b.t)) AS m "
        "FROM a JOIN b ON abs(a.t - b.t) <= 3 GROUP BY a.n"
    )
    with opened(text, device) as stream:
        stream.push("b", batch_of([(k, k, 1) for k in range(10)]))
        stream.push("a", batch_of([(1, 0, 0), (2, 5, 0)]))
        assert sorted(rows(stream.close())) == [(1, 4, 4, 0), (2, 7, 7, 5)]
        report = stream.report()
        assert report.pairs_in_window == 4 + 7
        assert report.evaluations >= 2 * report.pairs_in_window


def test_a_window_leaves_when_both_promises_have_passed_it(device: Device) -> None:
    with opened(WINDOWED, device) as stream:
        stream.push("a", batch_of([(1, 8, 0), (2, 9, 0), (3, 20, 0)]))
        stream.push("b", batch_of([(1, 9, 0), (2, 11, 0)]))
        assert rows(stream.poll()) == []  # b may still send rows of time 11
        stream.advance("b", 12)
        assert rows(stream.poll()) == [(0, 4)]  # and now none that 0..9 could meet
        stream.push("b", batch_of([(7, 22, 0)]))
        assert rows(stream.poll()) == []  # a may still send rows of 20..29
        stream.advance("a", 30)
        stream.advance("b", 31)
        assert rows(stream.poll()) == []
        stream.advance("b", 32)
        assert rows(stream.poll()) == [(20, 7)]


def test_groups_leave_in_order_of_their_first_row(device: Device) -> None:
    query = GROUPS.replace("GROUP BY a.n", "GROUP BY a.n, a.t")
    query = compile_query(query.replace("a.n,", "a.n, a.t,", 1), SCHEMAS, time=TIME)
    stream = JoinStream(query, SCHEMAS, device, disorder={"a": 5, "b": 0})
    stream.push("b", batch_of([(1, 12, 0)]))
    stream.advance("b", 100)  # each row of a is probed as it comes
    for row in [(5, 12, 0), (4, 10, 0), (3, 12, 0), (2, 11, 0)]:
        stream.push("a", batch_of([row]))
    assert [row[0] for row in rows(stream.close())] == [4, 2, 5, 3]


def test_the_best_match_in_a_window_that_has_moved_on(device: Device) -> None:
    query = (
        "SELECT a.t, min_by(b.n, abs(a.x - b.x)) AS c FROM a JOIN b ON abs(a.t - b.t) <= 3 "
        "GROUP BY a.t"
    )
    rng = Random(4)
    feeds = {}
    for name in "ab":
        count = 5000
        feeds[name] = Feed([(n, n // 4, rng.randint(0, 9)) for n in range(count)], [250] * 20, 0)
    stream = opened(query, device)  # its device windows wrap around several times
    expected = on_tables(query, feeds, device)
    assert played(stream, feeds, rng) == expected
    assert len(expected) == 1250


def test_groups_and_folds_count_as_memory_and_are_forgotten(device: Device) -> None:
    with opened(WINDOWED, device) as stream:
        stream.push("b", batch_of([(n, 5, 0) for n in range(50)]))
        stream.push("a", batch_of([(n, 5, 0) for n in range(50)]))
        stream.advance("b", 9)  # all are probed, but 0..9 may get more of a
        held = stream.report().memory_bytes["windows"]
        stream.advance("a", 10)
        stream.advance("b", 12)
        assert rows(stream.poll()) == [(0, 50 * sum(range(50)))]
        assert stream.report().memory_bytes["windows"] < held


def test_two_rows_of_a_key_that_was_declared_unique(device: Device) -> None:
    stream = opened(GROUPS, device)
    stream.push("a", batch_of([(7, 10, 0), (7, 10, 0)]))
    stream.push("b", batch_of([(1, 10, 0)]))
    with pytest.raises(DataError, match="two rows of a have the key 7, which was declared unique"):
        stream.close()


def test_the_sum_of_one_negative_zero_is_zero(device: Device) -> None:
    schema = pa.schema([pa.field("t", pa.int64()), pa.field("v", pa.float64())])
    schemas = {"a": schema, "b": schema}
    query = "SELECT a.t, sum(a.v) AS s FROM a JOIN b ON abs(a.t - b.t) <= 1 GROUP BY a.t"
    for unique in (None, {"a": "t"}):
        compiled = compile_query(query, schemas, time=TIME, unique=unique)
        stream = JoinStream(compiled, schemas, device)
        for side in "ab":
            stream.push(side, pa.record_batch({"t": [1], "v": [-0.0]}, schema))
        assert [str(one) for one in stream.close()["s"].to_pylist()] == ["0.0"]


def test_a_sum_that_overflows_ends_the_stream(device: Device) -> None:
    schema = pa.schema([pa.field("t", pa.int64()), pa.field("v", pa.int64())])
    schemas = {"a": schema, "b": schema}
    query = "SELECT a.t, sum(b.v) AS s FROM a JOIN b ON abs(a.t - b.t) <= 1 GROUP BY a.t"
    stream = JoinStream(compile_query(query, schemas, time=TIME), schemas, device)
    stream.push("a", pa.record_batch({"t": [1, 1], "v": [0, 0]}, schema))
    stream.push("b", pa.record_batch({"t": [1], "v": [1 << 62]}, schema))
    with pytest.raises(DataError, match=r"SUM\(b.v\) overflows"):
        stream.close()


def test_a_cast_that_fails_is_met_when_its_row_comes(device: Device) -> None:
    query = GROUPS.replace("GROUP BY a.n", "GROUP BY a.n, a.t, CAST(a.n AS TINYINT)")
    with opened(query, device) as stream:
        with pytest.raises(DataError, match="300"):
            stream.push("a", batch_of([(300, 1, 0)]))
        stream.push("a", batch_of([(100, 1, 0)]))
        stream.push("b", batch_of([(1, 1, 0)]))
        assert rows(stream.close()) == [(100, 1)]


@pytest.mark.parametrize(
    ("select", "group", "message"),
    [
        ("a.x, count(*)", "GROUP BY a.x", r"add the event time to GROUP BY, as window\(a.t, '10"),
        ("a.x, count(*)", "GROUP BY a.x", r"unique=\{'a': 'COLUMN'\}"),
        ("b.n, count(*)", "GROUP BY b.n", r"unique=\{'b': 'COLUMN'\}"),
        ("count(*)", "", "the one group of a query without GROUP BY"),
        ("-a.t, count(*)", "GROUP BY -a.t", "never knows that these groups are complete"),
        ("a.t % 5, count(*)", "GROUP BY a.t % 5", "never knows that these groups are complete"),
    ],
)
def test_groups_that_never_close_are_refused(
    device: Device, select: str, group: str, message: str
) -> None:
    query = f"SELECT {select} FROM a JOIN b ON abs(a.t - b.t) <= 3 {group}"
    with pytest.raises(QueryError, match=message):
        opened(query, device)


def test_keys_of_both_sides_over_rows_are_refused(device: Device) -> None:
    query = "SELECT count(*) AS n FROM a JOIN b ON a.x = b.x GROUP BY a.t, b.t"
    compiled = compile_query(query, SCHEMAS, time=TIME, rows=3)
    with pytest.raises(QueryError, match="columns of both tables over ROWS"):
        JoinStream(compiled, SCHEMAS, device)


@pytest.mark.parametrize(
    ("unique", "message"),
    [
        ({"c": "n"}, "unique is given for c, but the query has a, b"),
        ({"a": "m"}, "unique: unknown column m in a"),
        ({"a": ["n", "y"]}, "unique: unknown column y in a"),
    ],
)
def test_unique_columns_that_are_none(unique: dict, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        compile_query(GROUPS, SCHEMAS, time=TIME, unique=unique)


def test_several_columns_are_unique_together(device: Device) -> None:
    query = GROUPS.replace("GROUP BY a.n", "GROUP BY a.n, a.x")
    compiled = compile_query(query, SCHEMAS, time=TIME, unique={"a": ["n", "x"]})
    with JoinStream(compiled, SCHEMAS, device) as stream:
        stream.push("a", batch_of([(1, 10, 0), (1, 10, 1)]))
        stream.push("b", batch_of([(1, 10, 1), (2, 10, 0), (3, 10, 0)]))
        assert rows(stream.close()) == [(1, 2), (1, 1)]
    with pytest.raises(QueryError, match="never knows"):
        JoinStream(
            compile_query(GROUPS, SCHEMAS, time=TIME, unique={"a": ["n", "x"]}), SCHEMAS, device
        )


@pytest.mark.parametrize(
    ("units", "group"),
    [
        (("s", "us"), "window(a.t, '90 seconds')"),
        (("us", "s"), "window(a.t, '1500 milliseconds', '1500 milliseconds', '1 millisecond')"),
        (("ms", "ms"), "date_trunc('minute', b.t), CAST(a.t AS DATE)"),
        (("s", "ms"), "CAST(b.t AS DATE)"),
    ],
)
def test_times_of_other_units(device: Device, units: tuple[str, str], group: str) -> None:
    rng = Random(7)
    schemas = {
        name: pa.schema([("t", pa.timestamp(unit)), ("x", pa.int64())])
        for name, unit in zip("ab", units, strict=True)
    }
    tables = {}
    for name, schema in schemas.items():
        per_second = {"s": 1, "ms": 1000, "us": 1_000_000}[schema.field("t").type.unit]
        seconds = sorted(rng.randint(-90_000, 90_000) // 60 * 60 for _ in range(300))
        times = pa.array([second * per_second for second in seconds]).cast(schema.field("t").type)
        tables[name] = pa.table([times, [rng.randint(0, 5) for _ in seconds]], schema=schema)
    text = (
        "SELECT count(*) AS n, sum(a.x * b.x) AS s FROM a JOIN b ON b.t BETWEEN a.t - INTERVAL 10 "
        f"MINUTES AND a.t + INTERVAL 5 MINUTES GROUP BY {group}"
    )
    stream = JoinStream(compile_query(text, schemas), schemas, device)
    found = []
    for at in range(0, 300, 30):
        for name, table in tables.items():
            stream.push(name, table.slice(at, 30))
        found += rows(stream.poll())
    assert len(found) > 0
    found += rows(stream.close())
    assert sorted(found) == sorted(rows(penstock.sql(text, tables, device=device)))


@pytest.mark.parametrize("value", ["a.x % 5", "CAST(a.x AS DOUBLE)", "CAST(a.x AS TINYINT)"])
def test_casts_in_values_of_min_by(device: Device, value: str) -> None:
    schemas = {"a": pa.schema([("t", pa.int64()), ("id", pa.int64()), ("x", pa.float32())])}
    schemas["b"] = pa.schema([("t", pa.int64())])
    text = f"SELECT a.id, min_by({value}, b.t) AS v FROM a JOIN b ON a.t = b.t GROUP BY a.id"
    tables = {"a": pa.table([[0, 1], [1, 2], [7.0, None]], schema=schemas["a"])}
    tables["b"] = pa.table([[0, 1]], schema=schemas["b"])
    stream = JoinStream(
        compile_query(text, schemas, unique={"a": "id"}, time=TIME), schemas, device
    )
    for name, table in tables.items():
        stream.push(name, table)
    expected = penstock.sql(text, tables, time=TIME, device=device)
    assert sorted(rows(stream.close()), key=str) == sorted(rows(expected), key=str)


def test_a_cast_in_a_value_of_min_by_fails_where_its_row_is_pushed(device: Device) -> None:
    schemas = {"a": pa.schema([("t", pa.int64()), ("id", pa.int64()), ("x", pa.float32())])}
    schemas["b"] = pa.schema([("t", pa.int64())])
    text = "SELECT a.id, min_by(CAST(a.x AS TINYINT), b.t) AS v FROM a JOIN b ON a.t = b.t"
    compiled = compile_query(f"{text} GROUP BY a.id", schemas, unique={"a": "id"}, time=TIME)
    with JoinStream(compiled, schemas, device) as stream:
        with pytest.raises(DataError, match="overflows"):
            stream.push("a", pa.table([[0], [1], [1000.0]], schema=schemas["a"]))
        stream.push("a", pa.table([[0], [1], [7.0]], schema=schemas["a"]))
        stream.push("b", pa.table([[0]], schema=schemas["b"]))
        assert rows(stream.close()) == [(1, 7)]


def test_floats_add_up_in_the_order_of_the_window_however_late_a_task_ends(device: Device) -> None:
    schemas = {
        "a": pa.schema([("t", pa.int64()), ("n", pa.int64())]),
        "b": pa.schema([("t", pa.int64()), pa.field("f", pa.float64(), nullable=False)]),
    }
    text = "SELECT a.n, sum(b.f) AS s FROM a JOIN b ON abs(a.t - b.t) <= 40 GROUP BY a.n"
    query = compile_query(text, schemas, time=TIME, unique={"a": "n"})
    # Added one task after the other they are lost beside the first; they are not, if it comes last.
    values = [1e16] + [0.125] * 39
    tables = {
        "a": pa.table([[20], [1]], schema=schemas["a"]),
        "b": pa.table([list(range(40)), values], schema=schemas["b"]),
    }
    flow, found = Flow(latency_s=0.001, running=Running(task_evaluations=8)), []
    for fates in ([], ["hang"]):
        left = iter(fates)
        with FaultyDevice(device, lambda left=left: next(left, "ok")) as faulty:
            stream = JoinStream(query, schemas, faulty, flow=flow)
            for name, table in tables.items():
                stream.push(name, table)
            stream.push("b", pa.table([[1000], [0.0]], schema=schemas["b"]))
            while faulty.tasks < 4:  # another one waits behind that which hangs
                time.sleep(0.01)
            time.sleep(0.1)  # so that the others are over
            faulty.release()
            found += rows(stream.close())
    assert found == [(1, 1e16)] * 2
