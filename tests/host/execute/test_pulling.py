"""Orders of a join that is pulled: which of them the caller's thread runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.device.registry import open_device
from penstock.host.execute import maker, pulling, room
from penstock.host.execute.executor import Executor
from penstock.host.execute.order import Order
from penstock.host.execute.room import Room

ROWS = 1000
QUERY = "SELECT l.id AS i, r.id AS j FROM l JOIN r ON r.t BETWEEN l.t - 5 AND l.t + 5 AND l.k = r.k"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Order]:
    """The orders that the caller's thread has run."""
    found: list[Order] = []
    run_here = Executor.run_here

    def recorded(self: Executor, order: Order, *, loads: bool = False, times: int = 1) -> bool:
        was_run = run_here(self, order, loads=loads, times=times)
        found.extend([order] if was_run else [])
        return was_run

    monkeypatch.setattr(Executor, "run_here", recorded)
    return found


def joined(threads: int, rows: int = ROWS, portion: int = 1 << 16) -> list[tuple[int, int]]:
    ids = np.arange(rows)
    table = pa.table({"id": ids, "t": ids, "k": ids % 3})
    with open_device("cpu", threads=threads) as device:
        found = penstock.sql(
            QUERY,
            {"l": table, "r": table},
            time={"l": "t", "r": "t"},
            device=device,
            pruning=penstock.Pruning(run_rows=(4 * portion,)),
        )
    return sorted(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True))


def expected(rows: int = ROWS) -> list[tuple[int, int]]:
    return [(i, j) for i in range(rows) for j in (i - 3, i, i + 3) if 0 <= j < rows]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_small_join_of_one_order_runs_in_the_callers_thread(
    here: list[Order], threads: int
) -> None:
    assert joined(threads) == expected()
    assert len(here) == 1


def test_last_tuples_that_match_nothing_change_nothing(here: list[Order]) -> None:
    ids = np.arange(ROWS)
    k = pa.array(np.where(ids < ROWS - 50, ids % 3, 0), mask=ids >= ROWS - 50)
    table = pa.table({"id": ids, "t": ids, "k": k})
    tables, time = {"l": table, "r": table}, {"l": "t", "r": "t"}
    with open_device("cpu", threads=2) as device:
        found = penstock.sql(QUERY, tables, time=time, device=device)
    assert found.num_rows == len(expected(ROWS - 50))
    assert len(here) == 1


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_orders_of_a_small_probe_run_in_the_callers_thread(here: list[Order], threads: int) -> None:
    assert joined(threads, portion=100) == expected()
    assert len(here) == 10


def test_small_orders_take_the_place_of_the_last_lane(
    here: list[Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "HERE_PAIRS", 0)
    assert joined(1, portion=100) == expected()
    assert len(here) == 10
    here.clear()
    assert joined(2, portion=100) == expected()
    # The first one goes to a lane, and any one while no lane is busy.
    assert all(order.bound.kept[0] for order in here)
    here.clear()
    assert joined(8, portion=100) == expected()
    assert len(here) <= 3


def test_the_callers_thread_runs_so_many_evaluations(
    here: list[Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "HERE_IN_ALL", 3000)
    assert joined(1, portion=100) == expected()
    assert 1 <= len(here) <= 3
    assert sum(order.evaluations for order in here) <= 3000
    monkeypatch.setattr(pulling, "HERE_IN_ALL", 0)
    here.clear()
    assert joined(2, portion=100) == expected()
    assert not here


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("portion", [100, 1 << 16])
def test_results_that_are_too_long_are_continued_in_more_room(
    monkeypatch: pytest.MonkeyPatch, threads: int, portion: int
) -> None:
    monkeypatch.setattr(room, "FIRST", 64)
    taken: list[int] = []
    take = Room.take

    def recorded(self: Room, lane: str, batch: int, *, waits: bool = True) -> room.TaskRoom | None:
        found = take(self, lane, batch, waits=waits)
        taken.extend([] if found is None else [found.pairs])
        return found

    monkeypatch.setattr(Room, "take", recorded)
    assert joined(threads, portion=portion) == expected()
    assert taken[0] == 64
    assert taken == sorted(taken)
    assert 64 < taken[-1] <= 64 * 8**4


def test_no_order_waits_for_the_keys_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "HERE_PAIRS", 0)
    begun: list[str] = []
    portion, add = maker.OrderMaker._bound, Executor.add
    monkeypatch.setattr(
        maker.OrderMaker, "_bound", lambda *args: begun.append("keys") or portion(*args)
    )
    monkeypatch.setattr(Executor, "add", lambda *args: begun.append("order") or add(*args))
    assert joined(2, portion=100) == expected()
    assert begun[:2] == ["keys", "order"]
