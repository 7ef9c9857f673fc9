"""Sessions that grow, merge and close, beside a list that merges them row by row."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from penstock.host.rows.sides import Arrival, filtered, read_side
from penstock.host.sessions.numbering import KeyCodes, session_numbers
from penstock.host.sessions.open_sessions import KeptRows, OpenSessions
from penstock.plan.query import JoinQuery
from penstock.plan.window import FOREVER, NEVER
from penstock.query.compiler import compile_query

_INT, _TEXT = pa.schema([("n", pa.int64()), ("k", pa.int64()), ("t", pa.int64())]), pa.string()


def query(gap: int = 5, key: pa.DataType | None = None) -> JoinQuery:
    schema = _INT if key is None else _INT.set(1, pa.field("k", key))
    return compile_query(
        "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND "
        f"session_window(a.t, {gap}) = session_window(b.t, {gap})",
        {"a": schema, "b": schema},
    )


def arrival(made: JoinQuery, side: str, n: list[int], k: list, t: list[int]) -> Arrival:
    kind = pa.int64() if all(isinstance(one, int | None) for one in k) else _TEXT
    batch = pa.record_batch([pa.array(n), pa.array(k, kind), pa.array(t)], names=["n", "k", "t"])
    judged = made.by_event_time
    own = judged.side(side)
    return Arrival.of_batch(judged, side, filtered(own, read_side(judged, own, batch).timed), batch)


@dataclass
class Listed:
    """A session as the list of its rows (side, n); ``first`` is the first row's (time, n)."""

    first: tuple[int, int]
    last: int
    rows: list[tuple[str, int]]


def merged(sessions: list[Listed], time: int, row: tuple[str, int], gap: int) -> list[Listed]:
    """The sessions of a key with one more row."""
    near = [s for s in sessions if s.first[0] - gap <= time <= s.last + gap]
    rows = [one for s in near for one in s.rows]
    first = min([(time, row[1]), *(s.first for s in near)])
    last = max([time, *(s.last for s in near)])
    return [s for s in sessions if s not in near] + [Listed(first, last, [*rows, row])]


@pytest.mark.parametrize("seed", range(6))
def test_rows_leave_with_their_session(seed: int) -> None:
    rng, gap = Random(seed), 1 + seed % 4
    made = query(gap, None if seed % 2 else _TEXT)
    sessions = made.sessions
    assert sessions is not None
    tested = OpenSessions(sessions, {"l": 8, "r": 8})
    model: dict[int, list[Listed]] = {}
    clock, number, closed = 0, 0, 0
    for _ in range(60):
        size, side = rng.randrange(1, 9), rng.choice("lr")
        keys = [rng.randrange(4) for _ in range(size)]
        times = [clock + rng.randrange(25) for _ in range(size)]
        numbers = list(range(number, number + size))
        number += size
        shown = keys if seed % 2 else [f"key {key}" for key in keys]
        assert not len(tested.add(arrival(made, side, numbers, shown, times)).rows)
        for key, time, n in zip(keys, times, numbers, strict=True):
            model[key] = merged(model.get(key, []), time, (side, n), gap)
        clock += rng.randrange(6)
        ended = [s for own in model.values() for s in own if s.last + gap < clock]
        model = {key: [s for s in own if s not in ended] for key, own in model.items()}
        found: dict[int, set[tuple[str, int]]] = {}
        before = tested.following
        for one in tested.close(clock):
            assert np.all(np.diff(one.rows.time) >= 0)
            for session, n in zip(
                one.rows.time.tolist(), one.base.column("n").to_pylist(), strict=True
            ):
                found.setdefault(session, set()).add((one.side, n))
        assert sorted(found) == list(range(before, tested.following))
        in_order = sorted(ended, key=lambda s: (s.last, s.first))
        assert [found[k] for k in sorted(found)] == [set(s.rows) for s in in_order]
        assert len(tested) == sum(len(s.rows) for own in model.values() for s in own)
        closed += len(ended)
    assert closed > 20
    tested.close(FOREVER)
    assert not len(tested)
    assert tested.nbytes == 0


def test_no_session_closes_before_the_clock() -> None:
    made = query(gap=2**62)
    assert made.sessions is not None
    tested = OpenSessions(made.sessions, {"l": 0, "r": 0})
    tested.add(arrival(made, "l", [0, 1], [1, 2], [NEVER, 2**63 - 1]))
    assert tested.close(NEVER) == []
    assert tested.close(NEVER + 2**62) == []
    (left,) = tested.close(NEVER + 2**62 + 1)
    assert left.base.column("n").to_pylist() == [0]
    (left,) = tested.close(FOREVER)
    assert left.base.column("n").to_pylist() == [1]


def test_rows_without_a_key_are_of_no_session() -> None:
    made = query()
    assert made.sessions is not None
    tested = OpenSessions(made.sessions, {"l": 0, "r": 0})
    alone = tested.add(arrival(made, "r", [7, 8, 9], [None, 1, None], [1, 2, 3]))
    assert alone.base.column("n").to_pylist() == [7, 9]
    assert len(tested) == 1


def test_keys_that_nobody_keeps_are_forgotten() -> None:
    made = query(key=_TEXT)
    assert made.sessions is not None
    codes = KeyCodes(made.sessions)

    def of(keys: list[str]) -> np.ndarray:
        rows = arrival(made, "l", list(range(len(keys))), keys, [0] * len(keys)).rows
        return codes.encode("l", rows)[1]

    first = of(["u", "v", "u"])
    assert first[0] == first[2] != first[1]
    many = of([f"key {k}" for k in range(10_000)])
    assert len(set(many.tolist())) == 10_000
    codes.keep(first)
    assert len(codes) == 2
    assert of(["v", "u"]).tolist() == [first[1], first[0]]
    assert of(["w"])[0] > many.max()  # a number is never given again


def test_numbers_follow_the_last_times() -> None:
    codes, times = np.array([1, 2, 1, 2, 1]), np.array([0, 3, 4, 30, 9])
    assert session_numbers(codes, times, 5).tolist() == [1, 0, 1, 2, 1]
    assert session_numbers(codes[:0], times[:0], 5).tolist() == []
    far = np.array([NEVER, 2**63 - 1])
    assert session_numbers(np.zeros(2, np.int64), far, 2**63 - 1).tolist() == [0, 1]


def test_kept_rows_take_few_parts_and_give_memory_back() -> None:
    made, kept = query(), KeptRows(0)
    for k in range(300):
        rows = arrival(made, "l", [2 * k, 2 * k + 1], [0, 0], [k, k])
        kept.add(rows.numbered(np.array([2 * k, 2 * k + 1])))
    assert len(kept._parts) < 12
    whole = kept.nbytes
    taken = kept.take(np.array([599, 3, 0, 400]))
    assert taken.base.column("n").to_pylist() == [599, 3, 0, 400]
    kept.take(np.arange(5, 400))
    assert kept.nbytes < whole / 2
    assert kept.take(np.array([401, 1])).base.column("n").to_pylist() == [401, 1]
