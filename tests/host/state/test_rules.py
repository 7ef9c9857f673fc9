"""Single rules of the groups of a worker."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DataError
from penstock.host.state import APPENDING_EPOCHS, GroupState
from tests.host.state import rows_by_hand
from tests.host.state.hand_workers import Workers, query_of
from tests.host.state.rows_by_hand import EPOCH

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


@pytest.mark.parametrize("fast", [False, True], ids=["by tables", "compiled"])
def test_ties_go_to_the_first_by_time_feed_and_row(fast: bool):
    sql = (
        "SELECT window(t, '10 seconds').start AS w, min_by(v, k % 2) AS a, max_by(v, k % 2) AS b "
        "FROM s GROUP BY window(t, '10 seconds')"
    )
    query = query_of(sql, SMALL)
    rng = np.random.default_rng(13)
    rows = [
        (int(t), feed, row, int(k), 1000 * feed + row)
        for feed in range(4)
        for row, (t, k) in enumerate(
            zip(rng.integers(3, 6, 50), rng.integers(0, 2, 50), strict=True)
        )
    ]
    expected = {"w": datetime(1970, 1, 1)}
    expected["a"] = min(rows, key=lambda r: (r[3], *r[:3]))[4]
    expected["b"] = min(rows, key=lambda r: (-r[3], *r[:3]))[4]
    for _ in range(10):
        states = [GroupState(query, SMALL, rank=r, size=3) for r in range(3)]
        if fast:
            states[0].compile()
        for k in rng.permutation(len(rows)):
            t, feed, row, by, value = rows[k]
            states[rng.integers(3)].fold(small([t], [by], [value]), feed, row)
        for rank in rng.permutation(3):
            for to, blocks in enumerate(states[rank].seal()):
                for block in blocks:
                    states[to].merge(int(rank), block)
        assert [row for state in states for row in state.finish().to_pylist()] == [expected]


def test_groups_that_need_no_order_are_the_same():
    rng = np.random.default_rng(5)
    batch = small(rng.integers(0, 4000, 500), rng.integers(0, 90, 500))
    given = []
    for ordered in (True, False):
        state = GroupState(query_of(COUNTS, SMALL), SMALL, ordered=ordered)
        state.fold(batch)
        given.append([tuple(row.values()) for row in state.finish().to_pylist()])
    assert given[0] != given[1]
    assert given[0] == sorted(given[1], key=lambda row: (row[1], row[0]))
