"""The vector clock: what holds it, and that it never goes back."""

from __future__ import annotations

from penstock.host.workers.protocol.clock import Promises, VectorClock
from penstock.plan.window import FOREVER, NEVER


def test_a_worker_that_has_promised_nothing_holds_the_clock():
    clock = VectorClock(2)
    clock.move(0, [(0, 10)])
    assert clock.time == NEVER
    clock.move(1, [(0, 7)])
    assert clock.time == 7


def test_the_least_of_all_workers_and_feeds():
    clock = VectorClock(2)
    clock.move(0, [(0, 10), (1, 4)])
    clock.move(1, [(0, 6), (1, 8)])
    assert clock.time == 4
    assert clock.promises == {0: 6, 1: 4}
    assert clock.lag(1) == 2


def test_what_has_ended_holds_nothing():
    clock = VectorClock(2)
    clock.move(0, [(0, FOREVER)])
    clock.move(1, [(0, 3)])
    assert clock.time == 3
    clock.move(1, [(0, FOREVER)])
    assert clock.time == FOREVER


def test_a_feed_that_begins_late_does_not_put_the_clock_back():
    clock = VectorClock(1)
    clock.move(0, [(0, 10)])
    clock.move(0, [(0, 20), (1, 5)])
    assert clock.time == 10


def test_without_feeds_the_clock_stands():
    # Otherwise rows of a feed that begins next would find their windows closed.
    clock = VectorClock(2)
    clock.move(0, [(0, 10)])
    clock.move(1, [(0, 10)])
    clock.move(1, [])
    clock.move(0, [(1, 30)])
    assert clock.time == 10


def test_a_recorded_feed_that_nobody_names_holds_the_clock():
    clock = VectorClock(2, {0: 10, 1: 5})
    assert clock.time == 5
    clock.move(0, [(0, 20)])
    clock.move(1, [(0, 20)])
    assert clock.time == 5
    assert clock.unnamed == {1: 5}
    assert clock.promises == {0: 20, 1: 5}
    clock.move(1, [(0, 20), (1, 15)])
    assert clock.time == 15
    assert not clock.unnamed


def test_a_recorded_feed_that_has_ended_holds_nothing():
    assert VectorClock(2, {0: FOREVER}).time == FOREVER


def test_promises_only_rise():
    promises = Promises()
    promises.raise_to(3, 10)
    promises.raise_to(3, 4)
    promises.raise_to(1, 7)
    assert promises.in_order() == ((1, 7), (3, 10))
    assert promises.floor(NEVER) == 7
    promises.withdraw(1)
    promises.withdraw(2)
    assert promises.floor(8) == 10
