"""Groups on one and on several workers, against plain Python."""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DataError, QueryError, UsageError
from penstock.host.device.fields import MalformedError
from penstock.host.state import APPENDING_EPOCHS, PARTITIONS, FoldedRows, GroupState
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_select
from tests.host.state import rows_by_hand
from tests.host.state.rows_by_hand import CASES, EPOCH, SCHEMA, Case, Row, batch_of, groups, plain

SIZES = (1, 2, 3, 5)


def query_of(sql: str, schema: pa.Schema = SCHEMA) -> GroupQuery:
    time = {"s": "t"} if "t" in schema.names else None
    query = compile_select(sql, {"s": schema}, time=time)
    assert isinstance(query, GroupQuery)
    return query


class Workers:
    """States of a query and the channels between them: blocks arrive in order, at any time."""

    def __init__(self, query: GroupQuery, size: int, rng: np.random.Generator, fast: bool) -> None:
        self.query, self.rng, self.fast = query, rng, fast
        self.states = [GroupState(query, SCHEMA, rank=r, size=size) for r in range(size)]
        if fast:
            for state in self.states:
                state.compile()
        self.channels: dict[tuple[int, int], deque[bytes]] = {}
        self.out: list[pa.RecordBatch] = []

    def fold(self, rows: list[Row]) -> FoldedRows:
        """Fold neighbouring rows of one feed in one of the workers."""
        state = self.states[self.rng.integers(len(self.states))]
        return state.fold(batch_of(rows), rows[0]["feed"], rows[0]["row"])

    def seal(self, rank: int) -> None:
        for to, blocks in enumerate(self.states[rank].seal()):
            self.channels.setdefault((rank, to), deque()).extend(map(bytes, blocks))
        assert self.states[rank].changed == 0

    def deliver(self, most: int) -> None:
        """Merge some blocks that are under way, of any channel."""
        for _ in range(most):
            busy = [key for key, queue in sorted(self.channels.items()) if queue]
            if not busy:
                return
            sender, to = busy[self.rng.integers(len(busy))]
            self.states[to].merge(sender, self.channels[sender, to].popleft())

    def settle(self) -> None:
        """End an epoch everywhere."""
        for rank in self.rng.permutation(len(self.states)):
            self.seal(int(rank))
        self.deliver(1 << 30)

    def move(self, size: int) -> None:
        """Go on with another number of workers, from what these have saved."""
        saved = [bytes(block) for state in self.states for block in state.save()]
        entries, before = sum(s.entries for s in self.states), len(self.states)
        self.states = [GroupState(self.query, SCHEMA, rank=r, size=size) for r in range(size)]
        taken = [state.load(iter(saved), before) for state in self.states]
        assert sum(taken) == sum(s.entries for s in self.states) == entries

    def release(self, limit: int | float) -> list[pa.RecordBatch]:
        found = [state.release(limit) for state in self.states]
        self.out += found
        return found


def found_groups(case: Case, out: list[pa.RecordBatch]) -> dict[tuple, list]:
    """Output rows by key; each key is there once."""
    names = case.sql.partition("FROM")[0]
    keys = key_names(case)
    made: dict[tuple, list] = {}
    for row in pa.Table.from_batches(out).to_pylist():
        key = tuple(plain(row.pop(name)) for name in keys)
        assert key not in made, f"{key} left twice of {names}"
        made[key] = list(row.values())
    return made


def key_names(case: Case) -> list[str]:
    return {
        "numbers": ["k", "w"],
        "texts": ["w", "name", "raw", "code"],
        "kinds": ["f", "g", "flag", "price", "day", "huge", "u", "w"],
        "everything": [],
        "distinct": ["name", "day", "r"],
        "having": ["small"],
    }[case.name]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return a == b


def check(case: Case, out: list[pa.RecordBatch], rows: list[Row]) -> None:
    found, expected = found_groups(case, out), groups(case, rows)
    assert set(found) == set(expected)
    for key, values in expected.items():
        pairs = list(zip(values, found[key], strict=True))
        assert all(same(a, b) for a, b in pairs), (case.name, key, pairs)


def dealt(rng: np.random.Generator, phases: int) -> list[list[Row]]:
    """Rows by phase of 20 s, each in one of three feeds."""
    counts = [0, 0, 0]
    made = []
    for phase in range(phases):
        rows = rows_by_hand.random_rows(rng, int(rng.integers(0, 90)), 20 * phase - 20, 20)
        for row in rows:
            row["feed"] = int(rng.integers(3))
            row["row"] = counts[row["feed"]]
            counts[row["feed"]] += 1
        made.append(rows)
    return made


def chunks(rng: np.random.Generator, rows: list[Row]) -> list[list[Row]]:
    """Runs of rows of one feed, in any order of feeds."""
    cut: list[list[Row]] = []
    for feed in range(3):
        own = [row for row in rows if row["feed"] == feed]
        while own:
            some = int(rng.integers(1, 30))
            cut.append(own[:some])
            own = own[some:]
    return [cut[k] for k in rng.permutation(len(cut))]


# -- arguments ------------------------------------------------------------------------------------


def test_ranks_are_checked():
    query = query_of("SELECT count(*) AS n FROM s")
    with pytest.raises(UsageError, match="worker 2 of 2 cannot be"):
        GroupState(query, SCHEMA, rank=2, size=2)
    with pytest.raises(UsageError, match="at most 4096 workers"):
        GroupState(query, SCHEMA, size=PARTITIONS + 1)
    with pytest.raises(UsageError, match="row -1 of feed 0 has no number"):
        GroupState(query, SCHEMA).fold(batch_of([]), 0, -1)


def test_keys_without_an_order_are_refused():
    schema = SCHEMA.append(pa.field("list", pa.list_(pa.int64())))
    query = query_of("SELECT min_by(list, k) AS m FROM s", schema)
    with pytest.raises(QueryError, match=r"MIN_BY\(list, k\) of lists"):
        GroupState(query, schema)


# -- random ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", [False, True], ids=["by tables", "compiled"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_groups_are_those_of_plain_python(case: Case, fast: bool):
    for seed, size in enumerate(SIZES):
        rng = np.random.default_rng(100 * seed + fast)
        workers = Workers(query_of(case.sql), size, rng, fast)
        phases = dealt(rng, 5)
        for number, rows in enumerate(phases):
            for some in chunks(rng, rows):
                workers.fold(some)
                if rng.random() < 0.3:
                    workers.seal(int(rng.integers(len(workers.states))))
                workers.deliver(int(rng.integers(3)))
            workers.settle()
            if rng.random() < 0.4:
                workers.move(int(rng.choice(SIZES)))
            if case.time is not None:
                limit = 20_000 * number
                for batch in workers.release(limit):
                    starts = batch.column("w").drop_null().to_pylist()
                    assert starts == sorted(starts)
                    assert all(s < EPOCH + timedelta(milliseconds=limit) for s in starts)
        workers.out += [state.finish() for state in workers.states]
        check(case, workers.out, [row for rows in phases for row in rows])
        assert sum(state.entries for state in workers.states) == 0
        assert workers.out[0].schema == workers.states[0].schema


@pytest.mark.parametrize("fast", [False, True], ids=["by tables", "compiled"])
def test_rows_left_out_are_counted(fast: bool):
    rng = np.random.default_rng(5)
    rows = rows_by_hand.random_rows(rng, 500, 0, 100)
    for row in rows:
        row["feed"] = row["row"] = 0
    workers = Workers(query_of(CASES[0].sql), 1, rng, fast)
    folded = workers.fold(rows)
    admitted = [row for row in rows if CASES[0].where(row)]
    assert folded.filtered == len(rows) - len(admitted)
    assert folded.without_time == sum(row["t"] is None for row in admitted) > 0
    assert folded.rows == len(admitted) - folded.without_time


# -- regressions and single rules -----------------------------------------------------------------

SMALL = pa.schema([("t", pa.timestamp("ms")), ("k", pa.int64()), ("v", pa.int64())])
COUNTS = (
    "SELECT k, window(t, '1 second').start AS w, count(*) AS n FROM s "
    "GROUP BY k, window(t, '1 second')"
)


def small(t: list, k: list, v: list | None = None) -> pa.RecordBatch:
    columns = [pa.array(t, pa.int64()).cast(pa.timestamp("ms")), pa.array(k, pa.int64())]
    return pa.record_batch([*columns, pa.array(v or [0] * len(t), pa.int64())], schema=SMALL)


def test_one_leader_per_key_whatever_the_window():
    query = query_of(COUNTS, SMALL)
    states = [GroupState(query, SMALL, rank=r, size=3) for r in range(3)]
    states[0].fold(small(list(range(0, 50_000, 100)), [k % 20 for k in range(500)]))
    for to, blocks in enumerate(states[0].seal()):
        for block in blocks:
            states[to].merge(0, block)
    keys = [set(state.finish().column("k").to_pylist()) for state in states]
    assert sum(map(len, keys)) == 20
    assert all(keys)


def test_output_is_in_the_order_of_time_then_keys():
    query = query_of(COUNTS, SMALL)
    state = GroupState(query, SMALL)
    rng = np.random.default_rng(3)
    keys = [None if k == 0 else int(k) - 300 for k in rng.integers(0, 600, 4000)]
    state.fold(small(rng.integers(-9000, 9000, 4000).tolist(), keys))
    out = state.finish()
    rows = [
        (w, k is None, k or 0)
        for k, w in zip(out.column("k").to_pylist(), out.column("w").to_pylist(), strict=True)
    ]
    assert rows == sorted(rows)
    assert len(rows) > 2000


def test_a_window_that_closes_leaves_the_others():
    state = GroupState(query_of(COUNTS, SMALL), SMALL)
    state.fold(small([0, 500, 1000, 2500], [1, 1, 1, 1]))
    assert state.release(-math.inf).num_rows == state.release(0).num_rows == 0
    assert state.release(1).to_pylist() == [{"k": 1, "w": datetime(1970, 1, 1), "n": 2}]
    state.fold(small([1500], [1]))
    assert state.entries == 2
    assert state.release(2000).column("n").to_pylist() == [2]
    assert state.release(math.inf).column("n").to_pylist() == [1]


def test_many_open_windows_share_panes():
    state = GroupState(query_of("SELECT t, count(*) AS n FROM s GROUP BY t", SMALL), SMALL)
    rng = np.random.default_rng(4)
    times = rng.integers(-(1 << 40), 1 << 40, 20_000)
    for part in np.split(times, 20):
        state.fold(small(part.tolist(), [1] * len(part)))
    cut = int(np.median(times))
    first, rest = state.release(cut), state.finish()
    found = [t.cast(pa.int64()).as_py() for out in (first, rest) for t in out.column("t")]
    assert found == sorted(set(times.tolist()))
    assert first.num_rows == len({t for t in times.tolist() if t < cut})


def test_an_epoch_that_gains_nothing_makes_the_next_append():
    query = query_of(COUNTS, SMALL)
    state, other = (GroupState(query, SMALL, rank=r, size=2) for r in range(2))

    def end_epoch() -> None:
        for block in state.seal()[1]:
            other.merge(0, block)

    state.fold(small([0] * 100, list(range(100))))
    end_epoch()
    alike = small([0] * 100, [7] * 50 + [8] * 50)
    for _ in range(APPENDING_EPOCHS):
        state.fold(alike)
        assert state.changed == 100
        end_epoch()
    state.fold(alike)
    assert state.changed == 2
    end_epoch()
    total = {r["k"]: r["n"] for s in (state, other) for r in s.finish().to_pylist()}
    own = 1 + 50 * (APPENDING_EPOCHS + 1)
    assert total == dict.fromkeys(range(100), 1) | {7: own, 8: own}


def test_a_sum_beyond_its_type_is_refused():
    sql = "SELECT k, sum(v) AS s FROM s GROUP BY k"
    state = GroupState(query_of(sql, SMALL), SMALL)
    state.fold(small([0, 0], [1, 1], [(1 << 63) - 1, 1]))
    with pytest.raises(DataError, match=r"SUM\(v\) overflows"):
        state.finish()


def test_a_batch_that_fails_changes_nothing():
    sql = "SELECT CAST(v AS SMALLINT) AS c, count(*) AS n FROM s WHERE k = 1 GROUP BY 1"
    state = GroupState(query_of(sql, SMALL), SMALL)
    state.compile()
    state.fold(small([0, 0], [1, 2], [5, 1 << 40]))
    with pytest.raises(DataError):
        state.fold(small([0, 0], [1, 1], [5, 1 << 40]))
    assert state.finish().to_pylist() == [{"c": 5, "n": 1}]


def test_values_beyond_the_bounds_of_the_loop_are_exact():
    sql = "SELECT k, min(v * v) AS lo, max(v + v) AS hi FROM s GROUP BY k"
    state = GroupState(query_of(sql, SMALL), SMALL)
    state.compile()
    state.fold(small([0, 0], [1, 1], [3, -4]))
    state.fold(small([0, 0], [1, 1], [(1 << 63) - 1, 1 << 40]))
    top = (1 << 63) - 1
    assert state.finish().to_pylist() == [{"k": 1, "lo": Decimal(9), "hi": Decimal(2 * top)}]


#: Types of one kind of leaf each, so that few loops are compiled.
_COMPILED = (pa.time32("s"), pa.decimal256(60, 1), pa.dictionary(pa.int8(), pa.large_binary()))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pa.binary(3), [b"abc", b"abd", b"zzz"]),
        (pa.time32("s"), [time(0, 0, 1), time(3, 4, 5), time(23, 0)]),
        (pa.time64("us"), [time(0, 0, 1, 7), time(3, 4, 5), time(23, 0, 0, 1)]),
        (pa.date64(), [date(1960, 1, 1), date(1970, 1, 1), date(2000, 1, 1)]),
        (pa.decimal256(60, 1), [Decimal(-(10**50)), Decimal("0.5"), Decimal(10**40)]),
        (pa.decimal32(5, 1), [Decimal("-3.5"), Decimal("0.5"), Decimal("9999.9")]),
        (pa.uint64(), [0, 1 << 62, (1 << 64) - 1]),
        (pa.duration("ms"), [timedelta(-1), timedelta(0), timedelta(3)]),
        (pa.timestamp("ns", "UTC"), [datetime(1950, 1, 1, tzinfo=UTC), datetime.now(UTC)]),
        (pa.large_string(), ["", "a", "b"]),
        (pa.dictionary(pa.int8(), pa.large_binary()), [b"", b"a", b"b"]),
        (pa.null(), []),
    ],
    ids=lambda one: str(one) if isinstance(one, pa.DataType) else "",
)
def test_keys_and_nearest_values_of_any_type(dtype: pa.DataType, values: list):
    schema = pa.schema([("a", dtype), ("v", pa.int64())])
    query = query_of("SELECT a, count(v) AS n, min_by(a, v) AS m FROM s GROUP BY a", schema)
    state, other = (GroupState(query, schema, rank=r, size=2) for r in range(2))
    if dtype in _COMPILED:
        state.compile()
    shown = [*values, None]
    array = pa.array(shown[::-1] * 2, pa.large_binary() if pa.types.is_dictionary(dtype) else dtype)
    state.fold(pa.record_batch([array.cast(dtype), pa.array(range(len(array)))], schema=schema))
    for block in state.seal()[1]:
        other.merge(0, block)
    rows = [row for s in (state, other) for row in s.finish().to_pylist()]
    expected = [{"a": a, "n": 2, "m": a} for a in shown]
    assert len(rows) == len(expected)
    assert all(row in rows for row in expected)
    for s in (state, other):
        assert s.finish().num_rows == 0


# -- blocks ---------------------------------------------------------------------------------------


def sealed(sql: str = CASES[1].sql) -> tuple[GroupQuery, bytes]:
    """A query and a block that worker 0 sends to worker 1."""
    query = query_of(sql)
    state = GroupState(query, SCHEMA, rank=0, size=2)
    rows = rows_by_hand.random_rows(np.random.default_rng(8), 60, 0, 30)
    state.fold(batch_of(rows))
    (block,) = state.seal()[1]
    return query, bytes(block)


def test_damaged_blocks_are_refused():
    query, block = sealed()
    rng = np.random.default_rng(9)
    head = 300
    for _ in range(200):
        damaged = bytearray(block)
        damaged[rng.integers(head)] ^= 1 << rng.integers(8)
        with pytest.raises(MalformedError):
            GroupState(query, SCHEMA, rank=1, size=2).merge(0, bytes(damaged))
    for end in [*rng.integers(0, len(block), 50).tolist(), len(block) - 8]:
        with pytest.raises(MalformedError):
            GroupState(query, SCHEMA, rank=1, size=2).merge(0, block[:end])
    assert GroupState(query, SCHEMA, rank=1, size=2).merge(0, block) > 0


def test_damaged_entries_never_crash():
    query, block = sealed()
    words = GroupState(query, SCHEMA)._layout.words
    rng = np.random.default_rng(11)
    merged = 0
    for _ in range(100):
        damaged = bytearray(block)
        for _ in range(rng.integers(1, 20)):
            damaged[-int(rng.integers(1, 8 * words * 20))] = rng.integers(256)
        state = GroupState(query, SCHEMA, rank=1, size=2)
        # A channel has a checksum of its own: without, groups may be wrong, but nothing else.
        with suppress(MalformedError, DataError):
            merged += state.merge(0, bytes(damaged))
            assert state.finish().num_rows <= merged
    assert merged > 0


def test_blocks_of_others_are_refused():
    query, block = sealed()
    other = GroupState(query, SCHEMA, rank=1, size=3)
    with pytest.raises(MalformedError, match="does not come from worker 2"):
        other.merge(2, block)
    with pytest.raises(MalformedError, match="another query"):
        GroupState(query_of(CASES[0].sql), SCHEMA, rank=1, size=2).merge(0, block)
    with pytest.raises(MalformedError, match="out of its place"):
        other.load([block], 2)


def test_a_block_whose_texts_were_lost_is_refused():
    query = query_of(CASES[1].sql)
    state = GroupState(query, SCHEMA, rank=0, size=2)
    rows = rows_by_hand.random_rows(np.random.default_rng(8), 60, 0, 30)
    state.fold(batch_of(rows))
    state.seal()
    state.fold(batch_of(rows))
    (second,) = state.seal()[1]
    with pytest.raises(MalformedError, match="never sent"):
        GroupState(query, SCHEMA, rank=1, size=2).merge(0, second)


def test_saved_groups_stay_as_they_were():
    query = query_of(CASES[1].sql)
    state = GroupState(query, SCHEMA)
    rng = np.random.default_rng(10)
    rows = rows_by_hand.random_rows(rng, 80, 0, 30)
    state.fold(batch_of(rows))
    saved = state.save()
    state.fold(batch_of(rows_by_hand.random_rows(rng, 80, 0, 30)))
    copy, expected = GroupState(query, SCHEMA), GroupState(query, SCHEMA)
    copy.load(saved, 1)
    expected.fold(batch_of(rows))
    assert copy.finish().equals(expected.finish())


@pytest.mark.parametrize("size", [1, 2])
def test_texts_of_groups_that_left_are_forgotten(size: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.host.state.exchange.LEAST_ADDED_BYTES", 1 << 12)
    sql = (
        "SELECT name, window(t, '1 second').start AS w, count(*) AS n, max_by(code, k) AS c FROM s "
        "GROUP BY name, window(t, '1 second')"
    )
    workers = Workers(query_of(sql), size, np.random.default_rng(12), False)
    row = rows_by_hand.random_rows(np.random.default_rng(1), 1, 0, 1)[0] | {"k": 1, "feed": 0}
    sizes = []
    for second in range(60):
        names = [f"a name of some length {second} {n % 100}" for n in range(200)]
        t = EPOCH + timedelta(seconds=second)
        rows = [row | {"t": t, "name": n, "code": n + "!", "row": 0} for n in names]
        for some in (rows[:100], rows[100:]):
            workers.fold(some)
        workers.settle()
        if second:
            found = pa.Table.from_batches(workers.release(1000 * second)).to_pylist()
            assert len(found) == 100
            assert all(one["n"] == 2 and one["c"] == one["name"] + "!" for one in found)
        sizes.append(sum(state.nbytes for state in workers.states))
    assert max(sizes[30:]) <= 1.1 * max(sizes[:30])
    assert max(sizes) < 60 * 200 * 40
