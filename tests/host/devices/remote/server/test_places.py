"""Connections and sessions: silent ones end, one peer has half, and idle ones make room."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from penstock.errors import OverloadError
from penstock.host.device.base import Task
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.service import DeviceServer, Reason
from penstock.host.wire import listening
from penstock.host.wire.frames import MAGIC, PREFIX, Frames
from penstock.host.wire.handshake import greet
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.frames import dialled, raw
from tests.host.kit.serving import serving, until
from tests.host.kit.tasks import band_join, expected, load

pytestmark = pytest.mark.usefixtures("transport")

TIMEOUT_S = 30.0
JOIN = band_join(np.random.default_rng(4), 1, 32, 20, 90, "random")
TASK = Task(JOIN.stream, JOIN.start, JOIN.end, 10_000)


def connected(server: DeviceServer) -> RemoteDevice:
    return RemoteDevice(str(server.address), answer_s=TIMEOUT_S)


def works(device: RemoteDevice) -> None:
    kernel = device.open(JOIN.program)
    window = load(kernel, JOIN)
    assert len(kernel.submit(window, TASK).result(TIMEOUT_S).i) == len(expected(JOIN))
    window.free()
    kernel.close()


def test_connections_of_unknown_sessions_hold_nothing(server: DeviceServer) -> None:
    """3,000 of them made 2,800 threads."""
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(300):
            frames = stack.enter_context(raw(server.address))[0]
            answer = greet(frames, None, {"stream": "calls", "session": "guessed"})
            assert answer == {"over": "it is not known here"}
        until(lambda: threading.active_count() <= before)
        with connected(server) as device:
            works(device)


def test_one_peer_has_half_of_the_connections(faulty: FaultyDevice) -> None:
    with serving({"cpu": faulty}, ServerLimits(connections=20)) as server, ExitStack() as stack:
        silent = [stack.enter_context(_dialled(server)) for _ in range(40)]
        until(lambda: server._listener.count() == 10)
        # Those beyond are told, and hung up on.
        told = [_told(one) for one in silent[10:]]
        assert all("takes no more connections" in each for each in told)
        stack.close()
        until(lambda: server._listener.count() == 0)
        with connected(server) as device:
            works(device)


@contextmanager
def _dialled(server: DeviceServer) -> Iterator[socket.socket]:
    with dialled(server.address) as made:
        yield made


def _told(connection: socket.socket) -> str:
    return Frames(connection).receive()[0]["error"]["message"]


def test_connections_that_say_nothing_end(
    faulty: FaultyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "GREETING_S", 0.05)
    with serving({"cpu": faulty}, ServerLimits(lease_s=0.4)) as server, ExitStack() as stack:
        for begun in (b"", MAGIC, PREFIX.pack(MAGIC, 2, 0) + b"{"):
            made = stack.enter_context(dialled(server.address))
            made.sendall(begun)
        until(lambda: server._listener.count() == 0)


def test_one_peer_has_half_of_the_sessions(faulty: FaultyDevice) -> None:
    """Idle ones make room; those that have windows stay."""
    limits = ServerLimits(clients=4, idle_s=0.01)
    with serving({"cpu": faulty}, limits) as server, ExitStack() as stack:
        first = stack.enter_context(connected(server))
        window = load(first.open(JOIN.program), JOIN)
        second = stack.enter_context(connected(server))
        until(lambda: all(s.idle_s > 0.01 or s.idle_s == 0 for s in server.sessions()))
        third = stack.enter_context(connected(server))
        assert server.ended == {Reason.ROOM: 1}
        assert len(window.run(TASK).i) == len(expected(JOIN))
        third.close()
        # Who lost its place has a new one as soon as it makes a call.
        works(second)


def test_busy_sessions_keep_their_places(faulty: FaultyDevice) -> None:
    with serving({"cpu": faulty}, ServerLimits(clients=4)) as server, ExitStack() as stack:
        held = [stack.enter_context(connected(server)) for _ in range(2)]
        with pytest.raises(OverloadError, match="has 2 clients, 2 of them in process"):
            connected(server)
        for device in held:
            works(device)
