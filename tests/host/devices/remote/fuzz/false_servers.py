"""False servers on a socket, and the real ``remote`` device that connects to them."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.host.device.base import Task
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.wire.channel import ChannelTransport
from penstock.host.devices.remote.wire.rings import Rings
from penstock.host.wire.frames import Frames
from penstock.host.wire.handshake import welcome
from penstock.host.wire.transport import GoneError
from tests.host.devices.remote.fuzz.answers import _result, _true
from tests.host.devices.remote.fuzz.changes import changed, message
from tests.host.devices.remote.fuzz.talk import WELCOME, programs, task
from tests.host.kit.frames import put
from tests.host.kit.serving import socket_address

#: Part of the answers that are changed: few, so that conversations go on.
RATE = 0.15
#: Calls of one device.
_CALLS = 12
_WAIT_S = 30.0
_WELCOME = WELCOME | {"lease_s": 5.0, "devices": []}


class FalseServer:
    """Answers what the client wants to hear, with changes."""

    def __init__(self, path: str, rng: Random, counts: Counter[str]) -> None:
        self._rng, self._counts = rng, counts
        #: The result that the next task has.
        self.result: Any = None
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(path)
        self._socket.listen()
        self._frames: list[Frames] = []
        self._threads = ThreadPoolExecutor(16)
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        """End all connections."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_WAIT_S)
        self._socket.close()
        for frames in self._frames:
            frames.cancel()
        self._threads.shutdown(wait=True)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                return
            self._frames.append(Frames(accepted, 5.0))
            self._threads.submit(self._serve, self._frames[-1])

    def _serve(self, frames: Frames) -> None:
        with suppress(GoneError, PenstockError, OSError):
            try:
                wants = welcome(frames, None)
                frames.open_up()
                if wants["stream"] == "session":
                    self._send(frames, dict(_WELCOME), None, RATE / 5)
                    while True:
                        frames.receive()
                        self._send(frames, {"alive": True}, None, RATE)
                self._send(frames, {"ready": True}, None, RATE / 5)
                self._calls(frames)
            finally:
                frames.close()

    def _calls(self, frames: Frames) -> None:
        memory = None
        while True:
            header, _ = frames.receive()
            if header["call"] == "channel":
                rings = Rings.open(header["rings"], _WELCOME["session"])
                transport = ChannelTransport(
                    frames.connection, rings, is_server=True, spin_s=lambda: 0.0, stall_s=5.0
                )
                self._send(frames, {}, None, RATE / 5)
                frames.go_over(transport)
                memory = rings.memory
                continue
            true, out = _true(header, self.result)
            if memory is not None and self._rng.random() < 0.3:
                rng = np.random.default_rng(self._rng.randrange(1 << 30))
                memory[rng.integers(0, len(memory), 8)] = rng.integers(0, 256, 8, np.uint8)
            self._send(frames, true, out, RATE)

    def _send(
        self,
        frames: Frames,
        header: dict[str, Any],
        columns: list[np.ndarray] | None,
        rate: float,
    ) -> None:
        self._counts["messages"] += 1
        if columns is None and self._rng.random() < rate:
            header = changed(self._rng, header)
        sent, _ = message(self._rng, header, columns, rate)
        if self._rng.random() < rate / 20:
            sent = sent[: self._rng.randrange(len(sent))]
        put(frames, sent)


@contextmanager
def false_server(rng: Random, counts: Counter[str]) -> Iterator[tuple[FalseServer, str]]:
    """A false server and its address."""
    with socket_address() as address:
        server = FalseServer(address.removeprefix("unix://"), rng, counts)
        try:
            yield server, address
        finally:
            server.close()


def _use(server: FalseServer, address: str, rng: Random, counts: Counter[str]) -> None:
    transport = rng.choice(("auto", "channel", "socket"))
    device = RemoteDevice(address, transport=transport, connect_s=1.0, answer_s=2.0, resume_s=0.01)
    try:
        program = rng.choice(programs())
        kernel = device.open(program, program.modes)
        window = kernel.allocate(40)
        for _ in range(_CALLS):
            asked: Task = task(rng, program, 40)
            server.result = _result(rng, asked, program)
            with suppress(PenstockError):
                got = kernel.submit(window, asked).result(_WAIT_S)
                counts["believed"] += 1
                assert got.folds is not None or not len(got.i) or got.i.max() < asked.rows
            if window.lost:
                break
    finally:
        with suppress(PenstockError):
            device.close()


def main(seed: int, messages: int) -> Counter[str]:
    """Fuzz and give the counts."""
    counts: Counter[str] = Counter()
    servers = 0
    while counts["messages"] < messages:
        servers += 1
        rng = Random(seed * 1_000_003 + servers)
        with false_server(Random(rng.random()), counts) as (server, address):
            try:
                _use(server, address, rng, counts)
            except PenstockError:
                counts["refused"] += 1
            except BaseException as error:
                error.add_note(f"seed {seed}, server {servers}")
                raise
    return counts
