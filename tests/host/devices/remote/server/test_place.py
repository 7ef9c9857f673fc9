"""Where peers are served: one connection of each at a time, and pauses of who takes most."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from unittest.mock import patch

import pytest

from penstock.host.devices.remote.server.place import (
    LEAST_PAUSE_S,
    MOST_PAUSE_S,
    PeerPlace,
    PeerPlaces,
)
from penstock.host.wire.frames import Frames


@pytest.fixture
def ends() -> Iterator[tuple[Frames, Frames]]:
    one, other = map(Frames, socket.socketpair())
    with closing(one), closing(other):
        one.open_up()
        other.open_up()
        yield one, other


def test_connections_of_a_peer_are_served_one_at_a_time_but_while_they_wait() -> None:
    place, answered, inside, most = PeerPlaces().place("a"), threading.Event(), 0, 0
    pairs = [socket.socketpair() for _ in range(5)]
    frames = [Frames(one) for one, _ in pairs]

    def handle(connection: Frames) -> None:
        nonlocal inside, most
        with place.serving(connection):
            inside += 1
            most = max(most, inside)
            inside -= 1
            with place.left():
                assert answered.wait(30)
            inside += 1
            most = max(most, inside)
            inside -= 1

    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(handle, connection) for connection in frames[1:]]
        # Another one comes in although each of them waits.
        with place.serving(frames[0]):
            answered.set()
        for call in calls:
            call.result(30)
    assert most == 1
    for one, other in pairs:
        one.close()
        other.close()


def test_a_peer_that_sends_half_a_message_does_not_keep_its_other_connections(
    ends: tuple[Frames, Frames],
) -> None:
    server, client = ends
    place = PeerPlaces().place("a")
    got = []

    def serve() -> None:
        with place.serving(server):
            got.append(server.receive())

    with ThreadPoolExecutor(1) as threads:
        served = threads.submit(serve)
        frame = b"PSTK\x02\x00\x00\x00" + bytes(8) + b"{}"
        client.connection.sendall(frame[:17])
        other = socket.socketpair()
        with closing(other[0]), closing(other[1]), place.serving(Frames(other[0])):
            assert not served.done()
        client.connection.sendall(frame[17:])
        served.result(30)
    assert got == [({}, None)]


def test_a_peer_that_reads_no_answer_does_not_keep_its_other_connections(
    ends: tuple[Frames, Frames],
) -> None:
    server, client = ends
    place, entered = PeerPlaces().place("a"), threading.Event()

    def serve() -> None:
        with place.serving(server):
            for _ in range(100):
                server.send({"text": "x" * 50_000})
                entered.set()

    with ThreadPoolExecutor(1) as threads:
        served = threads.submit(serve)
        assert entered.wait(30)
        other = socket.socketpair()
        # The answers fill the socket's buffer: the server waits, and another connection comes in.
        with closing(other[0]), closing(other[1]), place.serving(Frames(other[0])):
            assert not served.done()
        for _ in range(100):
            client.receive()
        served.result(30)


def test_who_has_waited_for_longest_comes_next() -> None:
    """Who leaves for a moment does not come back before the others."""
    place, order, ready = PeerPlaces().place("a"), [], threading.Event()

    def wait(number: int) -> None:
        ready.set()
        with place.entered():
            order.append(number)

    with ThreadPoolExecutor(3) as threads:
        with place.entered():
            waiting = []
            for number in range(3):
                ready.clear()
                waiting.append(threads.submit(wait, number))
                assert ready.wait(30)
                while len(place._line._waiting) <= number:
                    threading.Event().wait(0.001)
            with place.left():
                pass
            order.append(3)
        for one in waiting:
            one.result(30)
    assert order == [0, 1, 2, 3]


class Clock:
    """Time that passes as a test says, or as somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    with (
        patch.object(time, "sleep", clock.sleep),
        patch.object(time, "perf_counter", clock.perf_counter),
    ):
        yield clock


def work(place: PeerPlace, clock: Clock, seconds: float, frames: Frames) -> None:
    with place.serving(frames):
        clock.now += seconds


def test_who_takes_most_pauses_as_long_as_it_has_worked(
    clock: Clock, ends: tuple[Frames, Frames]
) -> None:
    places, frames = PeerPlaces(), ends[0]
    busy, small = places.place("busy"), places.place("small")
    assert places.place("busy") is busy
    for _ in range(20):
        work(busy, clock, 0.002, frames)
    # Nobody else was there.
    assert clock.slept == []
    for _ in range(20):
        work(small, clock, 0.0003, frames)
        work(busy, clock, 0.002, frames)
    assert clock.slept == pytest.approx([0.002] * len(clock.slept))
    assert len(clock.slept) >= 18
    clock.slept.clear()
    # The other one has gone.
    clock.now += 10
    for _ in range(20):
        work(busy, clock, 0.002, frames)
    assert clock.slept == []


def test_pauses_are_short(clock: Clock, ends: tuple[Frames, Frames]) -> None:
    places, frames = PeerPlaces(), ends[0]
    busy, small = places.place("busy"), places.place("small")
    for _ in range(5):
        work(small, clock, LEAST_PAUSE_S, frames)
        work(busy, clock, 0.5, frames)
        work(small, clock, LEAST_PAUSE_S, frames)
        work(busy, clock, LEAST_PAUSE_S / 4, frames)
    assert clock.slept
    assert max(clock.slept) == MOST_PAUSE_S
