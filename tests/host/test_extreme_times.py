"""Times at both ends of int64: exact in tables and in streams, or a clear error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import DataError
from penstock.host.device.base import Device
from penstock.host.join.stream import JoinStream
from penstock.query import compile_query
from tests.host.kit.streams import LEAST, MOST, SCHEMA, Feed, batch_of
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
TIME = {"a": "t", "b": "t"}
SEEDS = st.integers(0, 1 << 32)
#: What b.t - a.t may be, by the condition.
WINDOWS = {
    "b.t > a.t": (1, None),
    "b.t >= a.t + 3": (3, None),
    "b.t = a.t": (0, 0),
    "b.t BETWEEN a.t - 2 AND a.t + 1": (-2, 1),
    "b.t < a.t - 1": (None, -2),
    "b.t <= a.t + 9223372036854775807": (None, MOST),
    "b.t >= a.t + 18446744073709551615": (MOST - LEAST, None),
    "b.t - a.t > 18446744073709551614": (MOST - LEAST, None),
    "abs(b.t - a.t) <= 9223372036854775808": (LEAST, -LEAST),
}
TIMES = (LEAST, LEAST + 1, LEAST + 3, -1, 0, 1, MOST - 3, MOST - 1, MOST, None)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


def drawn(rng: Random) -> list[tuple]:
    return [(n, rng.choice(TIMES), rng.randint(0, 1)) for n in range(rng.randint(0, 8))]


def table(rows: list[tuple]) -> pa.Table:
    return pa.Table.from_batches([batch_of(rows)] if rows else [], SCHEMA)


def rows_of(found: pa.Table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def pairs_of(sides: dict[str, list[tuple]], window: str) -> list[tuple]:
    low, high = WINDOWS[window]
    return [
        (a, b)
        for a in sides["a"]
        for b in sides["b"]
        if a[1] is not None
        and b[1] is not None
        and (low is None or b[1] - a[1] >= low)
        and (high is None or b[1] - a[1] <= high)
        and a[2] == b[2]
    ]


@settings(deadline=None, max_examples=examples(150))
@given(SEEDS, st.sampled_from(list(WINDOWS)))
def test_tables(device: Device, seed: int, window: str) -> None:
    rng = Random(seed)
    sides = {"a": drawn(rng), "b": drawn(rng)}
    tables = {name: table(rows) for name, rows in sides.items()}
    pairs = pairs_of(sides, window)
    alone = [(a[0], None) for a in sides["a"] if all(a[0] != p[0][0] for p in pairs)]
    on = f"{window} AND a.x = b.x"

    def found(query: str) -> list[tuple]:
        return rows_of(penstock.sql(query, tables, time=TIME, device=device))

    left = found(f"SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b ON {on}")
    assert left == sorted([*((a[0], b[0]) for a, b in pairs), *alone], key=repr)
    assert found(f"SELECT a.n AS i FROM a LEFT ANTI JOIN b ON {on}") == sorted(
        [(i,) for i, _ in alone], key=repr
    )
    for side, own in enumerate("ab"):
        groups: dict[int, list[int]] = {}
        for pair in pairs:
            groups.setdefault(pair[side][0], []).append(pair[1 - side][1])
        other = "ba"[side]
        assert found(
            f"SELECT {own}.n AS i, count(*) AS k, min({other}.t) AS least, max({other}.t) AS most "
            f"FROM a JOIN b ON {on} GROUP BY {own}.n"
        ) == sorted(((i, len(t), min(t), max(t)) for i, t in groups.items()), key=repr)


@settings(deadline=None, max_examples=examples(60))
@given(SEEDS, st.sampled_from(list(WINDOWS)))
def test_streams(device: Device, seed: int, window: str) -> None:
    """Rows in order, row by row, with promises as exact as they can be."""
    rng = Random(seed)
    sides = {"a": drawn(rng), "b": drawn(rng)}
    for rows in sides.values():
        rows.sort(key=lambda row: LEAST if row[1] is None else row[1])
    text = f"SELECT a.n AS i, b.n AS j FROM a FULL JOIN b ON {window} AND a.x = b.x"
    waiting = {name: list(rows) for name, rows in sides.items()}
    parts = []
    with JoinStream(compile_query(text, SCHEMAS, time=TIME), SCHEMAS, device) as stream:
        while any(waiting.values()):
            name = rng.choice([n for n, rows in waiting.items() if rows])
            row = waiting[name].pop(0)
            if row[1] is not None and rng.random() < 0.5:
                stream.advance(name, row[1])
            stream.push(name, batch_of([row]))
            parts.append(stream.poll())
        parts.append(stream.close())
        assert stream.stats.late == {"a": 0, "b": 0}
    pairs = [(a[0], b[0]) for a, b in pairs_of(sides, window)]
    matched = {p[0] for p in pairs}, {p[1] for p in pairs}
    alone = [(a[0], None) for a in sides["a"] if a[0] not in matched[0]]
    alone += [(None, b[0]) for b in sides["b"] if b[0] not in matched[1]]
    assert rows_of(pa.concat_tables(parts)) == sorted(pairs + alone, key=repr)


@settings(deadline=None, max_examples=examples(40))
@given(SEEDS, st.sampled_from([(1, 1), (2, 3)]))
def test_rows_windows(device: Device, seed: int, sizes: tuple[int, int]) -> None:
    """Streams in order of time, and tables, have the same arrivals."""
    rng = Random(seed)
    sides = {name: [row for row in drawn(rng) if row[1] is not None] for name in "ab"}
    for rows in sides.values():
        rows.sort(key=lambda row: row[1])
    text = "SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b ON a.x = b.x"
    options = {"time": TIME, "rows": dict(zip("ab", sizes, strict=True))}
    tables = {name: table(rows) for name, rows in sides.items()}
    with JoinStream(compile_query(text, SCHEMAS, **options), SCHEMAS, device) as stream:
        parts = [stream.poll()]
        for name in "ab":
            for row in sides[name]:
                stream.push(name, batch_of([row]))
        parts.append(stream.close())
    expected = penstock.sql(text, tables, device=device, **options)
    assert rows_of(pa.concat_tables(parts)) == rows_of(expected)


def test_the_last_time_may_come_again(device: Device) -> None:
    """``advance`` to the last time promises nothing about rows of that time."""
    text = "SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b ON b.t = a.t"
    with JoinStream(compile_query(text, SCHEMAS, time=TIME), SCHEMAS, device) as stream:
        for name in "ab":
            stream.advance(name, MOST)
        stream.push("a", batch_of([(1, MOST, 0), (2, MOST - 1, 0)]))
        stream.push("b", batch_of([(3, MOST, 0)]))
        stream.push("a", batch_of([(4, MOST, 0)]))
        assert rows_of(stream.poll()) == [(1, 3), (4, 3)]
        stream.advance("b", MOST + 1)  # after this no row of b can come
        stream.push("b", batch_of([(5, MOST, 0)]))
        stream.push("a", batch_of([(6, MOST, 0)]))
        assert rows_of(stream.close()) == [(6, 3)]
        assert stream.stats.late == {"a": 1, "b": 1}
        assert stream.late()["b"].column("n").to_pylist() == [5]


def test_a_promise_beyond_the_finer_unit_ends_the_source(device: Device) -> None:
    schemas = {
        "a": pa.schema([("n", pa.int64()), ("t", pa.timestamp("s"))]),
        "b": pa.schema([("n", pa.int64()), ("t", pa.timestamp("us"))]),
    }
    text = "SELECT a.n AS i, b.n AS j FROM a RIGHT JOIN b ON b.t >= a.t"
    far = pa.array([1 << 62]).cast(pa.timestamp("s"))
    with JoinStream(compile_query(text, schemas), schemas, device) as stream:
        with pytest.raises(DataError, match="a time of a needs more than 64 bits"):
            stream.push("a", pa.table([pa.array([1]), far], schema=schemas["a"]))
        assert stream.pushed("a") == 0  # nothing of it was taken
        last = pa.array([MOST]).cast(pa.timestamp("us"))
        stream.push("b", pa.table([pa.array([1]), last], schema=schemas["b"]))
        assert rows_of(stream.poll()) == []
        stream.advance("a", 1 << 62)
        assert rows_of(stream.poll()) == [(None, 1)]


def test_units_are_exact_or_an_error(device: Device) -> None:
    fine = pa.table({"n": [1], "t": pa.array([MOST]).cast(pa.timestamp("us"))})

    def joined(seconds: int, on: str = "b.t > a.t") -> list[tuple]:
        coarse = pa.table({"n": [1], "t": pa.array([seconds]).cast(pa.timestamp("s"))})
        text = f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON {on}"
        return rows_of(penstock.sql(text, {"a": coarse, "b": fine}, device=device))

    assert joined(MOST // 10**6) == [(1, 1)]
    with pytest.raises(DataError, match="a time of a needs more than 64 bits"):
        joined(MOST // 10**6 + 1)
    # As a condition beside a window of another column there is no limit.
    plain = {"a": {"m": [0]}, "b": {"m": [0]}}
    coarse = pa.table({"m": [0], "t": pa.array([1 << 62]).cast(pa.timestamp("s"))})
    tables = {"a": coarse, "b": fine.append_column("m", pa.array(plain["b"]["m"]))}
    for on, count in (("a.t > b.t", 1), ("a.t <= b.t", 0)):
        text = f"SELECT count(*) AS c FROM a JOIN b ON b.m = a.m AND {on}"
        found = penstock.sql(text, tables, time={"a": "m", "b": "m"}, device=device)
        assert rows_of(found) == [(count,)]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("a.day + a.n AS v", "a computed date32.* more than 32 bits"),
        ("a.last + INTERVAL 1 DAY AS v", "a computed timestamp.us. .* more than 64 bits"),
        ("a.last - a.first AS v", "a computed duration.us. .* more than 64 bits"),
        ("max(a.last - b.first) AS v", "a computed duration.us. .* more than 64 bits"),
        ("(a.day - a.epoch) * a.n * a.n AS v", "a computed duration.s. .* more than 64 bits"),
    ],
)
def test_times_that_no_column_holds_are_errors(device: Device, output: str, message: str) -> None:
    one = pa.table(
        {
            "n": pa.array([1 << 31], pa.int64()),
            "t": pa.array([0], pa.int64()),
            "day": pa.array([5], pa.int32()).cast(pa.date32()),
            "epoch": pa.array([0], pa.int32()).cast(pa.date32()),
            "first": pa.array([LEAST]).cast(pa.timestamp("us")),
            "last": pa.array([MOST]).cast(pa.timestamp("us")),
        }
    )
    text = f"SELECT {output} FROM a JOIN b ON b.t = a.t"
    with pytest.raises(DataError, match=message):
        penstock.sql(text, {"a": one, "b": one}, time=TIME, device=device)


def test_a_moment_is_a_datetime_too(device: Device) -> None:
    schemas = dict.fromkeys("ab", pa.schema([("n", pa.int64()), ("t", pa.timestamp("ns"))]))
    text = "SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b ON b.t = a.t"
    last = pa.array([MOST]).cast(pa.timestamp("ns"))
    with JoinStream(compile_query(text, schemas), schemas, device) as stream:
        stream.push("a", pa.table([pa.array([1]), last], schema=schemas["a"]))
        # The year 9999 lies beyond what nanoseconds count.
        stream.advance("b", datetime(9999, 1, 1, tzinfo=UTC))
        assert rows_of(stream.poll()) == [(1, None)]


def test_random_feeds_reach_the_ends() -> None:
    """The kit's feeds do have rows at the first and the last time, several of them."""
    for start, end in ((LEAST, LEAST), (MOST - 20, MOST)):
        times = [t for seed in range(20) for _, t, _ in Feed.drawn(Random(seed), 60, start).rows]
        assert times.count(end) > 20
