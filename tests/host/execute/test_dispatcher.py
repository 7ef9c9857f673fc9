"""The dispatcher: every order is published once, whatever the lanes do."""

from __future__ import annotations

from random import Random
from typing import cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DeviceError
from penstock.host.device.cut import Piece
from penstock.host.execute.dispatcher import Dispatcher, GiveUp, Instruction, Start
from penstock.host.execute.order import BoundProbe, Order
from penstock.host.execute.running import LeastWork, RoundRobin

BROKEN = DeviceError("broken")


def order(evaluations: int = 1) -> Order:
    rows, start = np.zeros(1, np.uint32), np.zeros(1, np.int64)
    return Order(0, cast(BoundProbe, None), Piece(rows, start, start + evaluations))


def starts(instructions: list[Instruction]) -> list[tuple[int, Order]]:
    return [(i.lane, i.order) for i in instructions if isinstance(i, Start)]


def test_round_robin_takes_lanes_in_turn() -> None:
    dispatcher = Dispatcher("abc", RoundRobin())
    assert [lane for lane, _ in starts(dispatcher.add([order() for _ in range(5)]))] == [
        0, 0, 1, 1, 2,
    ]  # fmt: skip


def test_least_work_fills_the_lane_that_is_sooner_through() -> None:
    dispatcher = Dispatcher("ab", LeastWork(), depth=100)
    first = starts(dispatcher.add([order(10) for _ in range(4)]))
    assert [lane for lane, _ in first] == [0, 0, 1, 1]
    for lane, one in first:
        if lane == 1:
            dispatcher.done(lane, one)
    lanes = [lane for lane, _ in starts(dispatcher.add([order(10) for _ in range(3)]))]
    assert lanes == [0, 1, 1]


def test_no_more_than_the_depth_is_started() -> None:
    dispatcher = Dispatcher("a", RoundRobin(), depth=2)
    orders = [order() for _ in range(3)]
    assert [o for _, o in starts(dispatcher.add(orders))] == orders[:2]
    first, then = dispatcher.done(0, orders[0])
    assert first
    assert [o for _, o in starts(then)] == orders[2:]


def test_there_is_room_while_some_lane_could_begin() -> None:
    dispatcher = Dispatcher("ab", RoundRobin(), depth=1)
    orders = [order() for _ in range(3)]
    assert dispatcher.has_room
    dispatcher.add(orders[:2])
    assert dispatcher.has_room  # none waits
    dispatcher.add(orders[2:])
    assert not dispatcher.has_room
    # One lane has the order that waits, the other one nothing.
    dispatcher.done(1, orders[1])
    assert dispatcher.has_room
    dispatcher.done(0, orders[0])
    assert dispatcher.has_room


def test_a_failure_goes_to_another_lane() -> None:
    dispatcher = Dispatcher("ab", RoundRobin())
    one = order()
    ((lane, _),) = starts(dispatcher.add([one]))
    ((other, again),) = starts(dispatcher.failed(lane, one, BROKEN))
    assert other != lane
    assert again is one
    assert dispatcher.failures == {"ab"[lane]: 1}


def test_failures_in_a_row_park_a_lane_and_move_its_queue() -> None:
    dispatcher = Dispatcher("ab", RoundRobin(), depth=1, most_failures=1)
    orders = [order() for _ in range(4)]
    begun = dict(starts(dispatcher.add(orders)))
    then = dispatcher.failed(0, begun[0], BROKEN)
    assert dispatcher.parked == ["a"]
    assert starts(then) == []  # lane b is busy with its own
    assert dispatcher.waiting() == {"a": 0, "b": 4}


def test_the_last_lane_gives_up() -> None:
    dispatcher = Dispatcher("a", RoundRobin(), most_failures=2)
    one = order()
    dispatcher.add([one])
    ((_, again),) = starts(dispatcher.failed(0, one, BROKEN))
    assert again is one
    assert dispatcher.failed(0, one, BROKEN) == [GiveUp(one, BROKEN)]
    later = order()
    assert dispatcher.add([later]) == [GiveUp(later, BROKEN)]


def test_a_hanging_task_parks_its_lane_until_it_ends() -> None:
    dispatcher = Dispatcher("ab", RoundRobin())
    one = order()
    ((lane, _),) = starts(dispatcher.add([one]))
    ((other, _),) = starts(dispatcher.failed(lane, one, BROKEN, hung=True))
    assert dispatcher.parked == ["ab"[lane]]
    assert dispatcher.done(other, one)[0]
    assert not dispatcher.done(lane, one)[0]
    assert dispatcher.parked == []


@given(st.integers(0, 1 << 32))
def test_each_order_is_published_once(seed: int) -> None:
    rng = Random(seed)
    lanes = rng.randint(1, 8)
    dispatcher = Dispatcher([str(k) for k in range(lanes)], RoundRobin(), most_failures=3)
    running: list[tuple[int, Order]] = []
    hung: list[tuple[int, Order]] = []
    published: list[Order] = []
    added = 0
    lost = False

    def took(instructions: list[Instruction]) -> None:
        nonlocal lost
        running.extend(starts(instructions))
        lost |= any(isinstance(i, GiveUp) for i in instructions)

    for _ in range(rng.randint(1, 80)):
        if rng.random() < 0.4:
            fresh = [order(rng.randint(1, 9)) for _ in range(rng.randint(1, 4))]
            added += len(fresh)
            took(dispatcher.add(fresh))
        elif running or hung:
            late = bool(hung) and (not running or rng.random() < 0.2)
            lane, one = (hung if late else running).pop(0)
            if not late and rng.random() < 0.1:
                hung.append((lane, one))
                took(dispatcher.failed(lane, one, BROKEN, hung=True))
            elif rng.random() < 0.15:
                took(dispatcher.failed(lane, one, BROKEN))
            else:
                first, then = dispatcher.done(lane, one)
                if first:
                    published.append(one)
                took(then)
        busy = [lane for lane, _ in running]
        assert all(busy.count(lane) <= 2 for lane in busy)
    while running or hung:
        lane, one = (running or hung).pop(0)
        first, then = dispatcher.done(lane, one)
        if first:
            published.append(one)
        took(then)
    assert len(set(published)) == len(published)
    assert lost or len(published) == added
