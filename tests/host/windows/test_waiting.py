"""Rows that wait for a time; and how much work it is to let rows wait, and into windows."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.host.rows.sides import Arrival, SideRows
from penstock.host.windows.run import WindowRun
from penstock.host.windows.waiting import WaitingRows
from penstock.plan.window import FOREVER, LEFT
from tests.host.kit.engines import ENGINES, SCHEMA, batch
from tests.kit.effort import examples


def arrival(times: list[int], first: int, base: Any = None) -> Arrival:
    """Rows with these times, numbered from the first one on."""
    ids = np.arange(first, first + len(times))
    rows = SideRows(np.arange(len(times)), np.array(times, np.int64), {})
    if base is not None:
        return Arrival(LEFT, rows, base, ids, np.arange(len(times)))
    return Arrival(LEFT, rows, pa.record_batch({"n": ids}), ids)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 1 << 32))
def test_rows_leave_by_time_and_arrival(seed: int) -> None:
    rng = Random(seed)
    waiting, model, count, below = WaitingRows(), [], 0, 0
    for _ in range(rng.randint(1, 30)):
        times = [rng.randint(below, below + 20) for _ in range(rng.randint(0, 6))]
        waiting.add(arrival(times, count))
        model += zip(times, range(count, count + len(times)), strict=True)
        count += len(times)
        below = FOREVER if rng.random() < 0.05 else below + rng.randint(0, 9)
        due, model = ([r for r in model if (r[0] < below) == is_due] for is_due in (True, False))
        found = waiting.take(below)
        assert len(found) <= 1
        for one in found:
            assert list(zip(one.rows.time.tolist(), one.ids.tolist(), strict=True)) == sorted(due)
            assert one.base["n"].to_pylist() == one.ids.tolist()
        assert bool(found) == bool(due)
        assert waiting.rows == len(model)
        assert waiting.oldest == min((time for time, _ in model), default=FOREVER)
        assert (waiting.nbytes == 0) == (not model)
        if below == FOREVER:
            break


def test_bytes_are_asked_for_once() -> None:
    class Base:
        asked = 0

        @property
        def nbytes(self) -> int:
            Base.asked += 1
            return 8

    waiting = WaitingRows()
    for k in range(100):
        waiting.add(arrival([1000 - k], k, Base()))
        assert waiting.take(k) == []
        assert waiting.nbytes == 8 * (k + 1)
    assert Base.asked == 100


def test_rows_of_a_large_batch_are_moved_once_by_one() -> None:
    waiting, moved = WaitingRows(), 0
    waiting.add(arrival(list(range(1024)), 0))
    pick = Arrival.pick

    def counted(self: Arrival, chosen: np.ndarray | slice) -> Arrival:
        nonlocal moved
        found = pick(self, chosen)
        moved += len(found.ids)
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Arrival, "pick", counted)
        for k in range(1024):
            (one,) = waiting.take(k + 1)
            assert one.ids.tolist() == [k]
    assert moved < 3 * 1024


@pytest.mark.parametrize("engine", ENGINES)
def test_the_work_of_a_push_does_not_grow_with_the_rows_that_wait(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are picked, joined and merged, where one side is far out of order."""
    query, options = ENGINES[engine]
    moved = 0

    def counting(own: type, name: str) -> None:
        do = getattr(own, name)

        def counted(*args: Any) -> Any:
            nonlocal moved
            found = do(*args)
            moved += len(found.ids if isinstance(found, Arrival) else found)
            return found

        is_static = isinstance(own.__dict__[name], staticmethod)
        monkeypatch.setattr(own, name, staticmethod(counted) if is_static else counted)

    for own, name in ((Arrival, "pick"), (WindowRun, "merged")):
        counting(own, name)
    concat = Arrival.concat

    def joined(parts: list[Arrival]) -> Arrival:
        nonlocal moved
        moved += sum(len(part.ids) for part in parts) if len(parts) > 1 else 0
        return concat(parts)

    monkeypatch.setattr(Arrival, "concat", staticmethod(joined))
    count, time = 256, {"a": "t", "b": "t"}
    with penstock.stream(
        query, {"a": SCHEMA, "b": SCHEMA}, time=time, disorder=10 * count, **options
    ) as stream:
        for k in range(count):
            stream.push("a", batch((k, "x", 3 * (count - k))))
        first, moved = moved, 0
        for k in range(count):
            stream.push("b", batch((k, "y", 3 * (count - k))))
        assert max(first, moved) <= count * math.log2(count)
