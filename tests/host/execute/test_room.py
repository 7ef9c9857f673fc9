"""Room for results: tasks take it, and wait for it as long as there is something to poll."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.host.execute.budget import RESULTS, TASKS, Budget
from penstock.host.execute.room import FEW, LEAST, MOST, Room

NUMBERS = pa.schema([("a", pa.int64()), ("b", pa.int64())])
TEXT = pa.schema([("a", pa.string())])


class Left:
    """Rows that can be polled."""

    rows = 0


def opened(limit: int | None, schema: pa.Schema = NUMBERS, **options) -> tuple[Room, Budget, Left]:
    left, budget = Left(), Budget(limit, **options)
    return Room(budget, schema, lanes=2, depth=2, left=lambda: left.rows), budget, left


def test_without_a_limit_tasks_are_as_large_as_is_of_use() -> None:
    room, budget, _ = opened(None)
    taken = room.take("lane", 0)
    assert taken is not None
    assert (taken.pairs, taken.nbytes) == (MOST, 0)
    assert room.tuples(1e9, 1) is None
    assert not any(budget.parts().values())


@pytest.mark.parametrize("limit", [1 << 26, 1 << 29])
def test_all_lanes_together_take_half_of_what_results_may(limit: int) -> None:
    room, budget, _ = opened(limit)
    taken = [room.take(f"lane {k % 2}", 0) for k in range(4)]
    assert all(one is not None and LEAST < one.pairs < MOST for one in taken)
    assert budget.parts()[TASKS] == pytest.approx(limit / 8, rel=0.01)
    for one in taken:
        assert one is not None
        room.give_back(one)
    assert budget.parts()[TASKS] == 0


def test_tasks_wait_for_the_consumer() -> None:
    room, budget, left = opened(1 << 26, rows_gather=False)
    budget.add(RESULTS, (1 << 26) // 4)
    left.rows = 7
    assert room.take("lane", 0) is None
    assert room.waits
    assert not budget.fits(1)  # rows would only gather
    budget.add(RESULTS, -(1 << 23))
    assert room.take("lane", 0) is not None
    assert not room.waits
    assert budget.fits(1)


def test_rows_that_wait_for_their_order_hold_up_all_but_the_batch_that_leaves_next() -> None:
    room, budget, _ = opened(1 << 26)
    room.first_batch = lambda: 4
    running = room.take("one", 3)
    budget.add(RESULTS, 1 << 26)
    assert room.take("two", 5) is None
    assert room.take("two", 4) is not None
    assert running is not None
    room, budget, _ = opened(1 << 26)
    room.first_batch = lambda: 4
    budget.add(RESULTS, 1 << 26)
    assert room.take("two", 5) is not None  # nothing else is on its way


def test_a_stream_that_closes_waits_for_nobody() -> None:
    room, budget, left = opened(1 << 20)
    budget.add(RESULTS, 1 << 20)
    left.rows = 7
    assert room.take("lane", 0) is None
    budget.lifted = True
    assert room.take("lane", 0) is not None
    assert room.tuples(1e9, 1) is None


def test_the_least_budget_has_room_for_a_few_pairs() -> None:
    room, _, _ = opened(1)
    taken = room.take("lane", 0)
    assert taken is not None
    assert taken.pairs == LEAST


def test_text_is_counted_as_it_comes() -> None:
    room, _, _ = opened(1 << 26, TEXT)
    unknown = room.take("lane", 0)
    room.noted(10, 20_000)
    large = room.take("lane", 0)
    assert unknown is not None
    assert large is not None
    assert large.pairs < unknown.pairs


def test_batches_whose_rows_wait_for_each_other_are_small() -> None:
    room, _, _ = opened(1 << 26)
    assert room.tuples(0.0, 0) == FEW
    assert room.tuples(0.0, 1000) == 2000
    assert room.tuples(1 << 20, 1000) == 8
    assert room.tuples(1 << 40, 1000) == 1
