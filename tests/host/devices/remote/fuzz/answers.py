"""Answers of false servers straight to a client's own code, which decodes, checks and uses them."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.host.device.base import PAIRS, Folds, Pause, Result, Task, WindowName
from penstock.host.device.fields import Header, MalformedError
from penstock.host.devices.remote.client.kernels import RemoteKernel, RemoteWindow
from penstock.host.devices.remote.client.server_session import CallStream, EndedSessionError
from penstock.host.devices.remote.wire.tasks import result_message
from penstock.host.devices.remote.wire.welcome import Welcome
from penstock.host.wire.address import Address
from penstock.host.wire.errors import error_from
from penstock.host.wire.frames import Frames
from penstock.host.wire.handshake import Role, greet, new_nonce, proof
from penstock.host.wire.message import PROTOCOL
from penstock.host.wire.transport import FrameError, GoneError
from penstock.program import BandProgram, Mode, Program
from tests.host.devices.remote.fuzz.changes import changed, frame, message
from tests.host.devices.remote.fuzz.dispatch import over
from tests.host.devices.remote.fuzz.talk import WELCOME, joined, programs, task
from tests.host.kit.frames import put

#: Part of the answers that are changed.
RATE = 0.7
#: Calls on one connection.
PER_CONNECTION = 300
_TOKEN = "0123456789abcdef"
_CAPACITY = 40
_COUNTERS = {"evaluations": 7, "pairs": 3}
_ERRORS = ("DeviceError", "OverloadError", "FileError", "Exception", "", "UsageError")


_Message = tuple[Header, list[np.ndarray] | None]


class _Link:
    """A link whose server's answers are here before it asks."""

    lost = None

    def __init__(self, rng: Random, shared: bool) -> None:
        self.rng, self.sent = rng, 0
        self.address, self.key, self.channel = Address(host="false", port=1), "key", False
        frames, self._theirs = (Frames(end, 5.0) for end in socket.socketpair())
        frames.open_up()
        self._theirs.open_up()
        # Whether it goes over is decided here.
        self._memory = over(frames, self._theirs, "key").memory if shared else None
        self._stream = CallStream(frames, self)
        self.answer: Callable[[Header], tuple[Header, list[np.ndarray] | None]] = lambda _: (
            {},
            None,
        )

    def call(
        self, header: Header, columns: Sequence[np.ndarray] | None = None
    ) -> tuple[Header, list[np.ndarray]]:
        true, out = self.answer(header)
        sent, _ = message(self.rng, true, out, RATE)
        self.sent += 1
        prefix_is_true = self.rng.random() > 0.003
        put(self._theirs, sent if prefix_is_true else sent[:4] + bytes(12) + sent[16:])
        if self._memory is not None and self.rng.random() < 0.03:
            self._memory[self.rng.randrange(len(self._memory))] = self.rng.randrange(256)
        try:
            return self._stream.call(header, columns, 1e18)
        finally:
            with suppress(GoneError, MalformedError):
                self._theirs.receive()

    def close(self) -> None:
        self._stream.close()
        self._theirs.close()


class _Host:
    """A device of the kernels that are asked."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    def session(self) -> Any:
        return self._link

    def run(self, act: Callable[[], Any]) -> Future[Any]:
        raise NotImplementedError


def _result(rng: Random, asked: Task, program: Program) -> Result:
    """A result that the task could have."""
    if asked.mode is Mode.PAIRS:
        count = rng.randrange(min(asked.room, 500) + 1) if asked.rows else 0
        numbers = np.random.default_rng(rng.randrange(1 << 30))
        i = numbers.integers(0, max(asked.rows, 1), count).astype(np.uint32)
        j = numbers.integers(0, _CAPACITY, count).astype(np.uint32)
        return Result(i, j, None, _COUNTERS)
    none, found = np.zeros(0, np.uint32), np.arange(asked.rows) % 2 == 0
    value = found if asked.mode is Mode.EXISTS else np.arange(asked.rows)
    dtype = program.payload if isinstance(program, BandProgram) else program.value.type  # type: ignore
    if asked.mode.needs_value and dtype is not None and dtype.is_float:
        value = value.astype(np.float64)
    position = np.arange(asked.rows) % _CAPACITY if asked.mode is Mode.NEAREST else None
    return Result(none, none, None, _COUNTERS, Folds(found, value, position))


def _check(result: Result, asked: Task) -> None:
    """What whoever uses a result relies on."""
    if result.folds is not None:
        folds = result.folds
        assert len(folds.found) == len(folds.value) == asked.rows
        assert folds.found.dtype == bool
        if folds.position is not None and asked.rows:
            assert -1 <= folds.position.min() <= folds.position.max() < _CAPACITY
        return
    assert len(result.i) == len(result.j) <= asked.room
    assert result.i.dtype == result.j.dtype == np.uint32
    if len(result.i):
        assert result.i.max() < asked.rows
        assert result.j.max() < _CAPACITY
    if result.pause is not None:
        assert 0 <= result.pause.i0 <= result.pause.i1 <= asked.rows


def _true(header: Header, asked: Any) -> tuple[Header, list[np.ndarray] | None]:
    """What a server would answer, with results that were made beforehand."""
    call = header["call"]
    if call == "open":
        return {"kernel": 1, "min_room": 1, "most_positions": 0}, None
    if call in ("allocate", "resident"):
        return {"window": 2, "loaded": True}, None
    if call == "task":
        return result_message(asked)
    return {}, None


def _use(rng: Random, link: _Link) -> None:
    """One call of a client, with a false answer, and with what it does with it."""
    device = _Host(link)
    if rng.random() < 0.03:
        kind, text = rng.choice(_ERRORS), rng.choice(("no", "\x1b[2J", "x" * 9000))
        told = {"error": {"kind": kind, "message": text, "traceback": "x"}}
        link.answer = lambda _: (rng.choice((told, {"over": "it ended"})), None)
        link.call({"call": "close", "kernel": 1})
        return
    if rng.random() < 0.25:
        program, made = joined(rng)
        count = int(np.count_nonzero(made.tuples.is_b))
        a, b = (np.zeros(0 if not (count and count < len(made.tuples)) else 2, np.uint32),) * 2
        done = rng.randint(made.history + 1, made.rows)
        pause = None if done == made.rows else Pause(done, done, 0)
        truth = Result(a, b, pause, _COUNTERS)
        link.answer = lambda header: _true(header, truth)
        got = RemoteKernel(device, program, PAIRS)._run(made)
        if got.pause is not None:
            assert made.history < got.pause.i0 == got.pause.i1 <= made.rows
        for column, bound in ((got.i, len(made.tuples) - count), (got.j, count)):
            assert not len(column) or column.max() < bound
        return
    program = rng.choice(programs())
    asked = task(rng, program, _CAPACITY)
    link.answer = lambda header: _true(header, _result(rng, asked, program))
    kernel = RemoteKernel(device, program, program.modes)
    window = RemoteWindow(kernel, link, 2, _CAPACITY)  # type: ignore[arg-type]
    if rng.random() < 0.1:
        kernel.resident(WindowName("s", "b", "c"), _CAPACITY, list)
        kernel.allocate(_CAPACITY)
        window.write(0, [np.zeros(3, np.uint8)])
    _check(window.run(asked), asked)


def _greet(rng: Random) -> None:
    """One welcome of a false server."""
    ours, theirs = socket.socketpair()
    frames = Frames(ours, 5.0)
    token = rng.choice((None, _TOKEN))
    nonce = new_nonce()
    hello: Header = {"protocol": PROTOCOL, "version": "1", "nonce": nonce, "token": bool(token)}
    if token is not None:
        # Whatever nonce the client will say, this is no proof of it.
        hello["proof"] = proof(token, Role.SERVER, PROTOCOL, nonce, nonce)
    # Of two devices, so that there is more to change.
    welcome = WELCOME | {"devices": WELCOME["devices"] * 2}
    try:
        for true in (hello, welcome):
            said = changed(rng, true) if rng.random() < 0.6 else true
            theirs.sendall(frame(json.dumps(said).encode(), b""))
        theirs.shutdown(socket.SHUT_WR)
        answer = greet(frames, token, {"stream": "session"})
        if "error" in answer:
            raise error_from(answer["error"], "the false server")
        assert token is None, "a server that does not know the token was believed"
        got = Welcome.parsed(answer)
        assert got.lease_s > 0
        assert got.lanes > 0
    finally:
        frames.close()
        theirs.close()


def main(seed: int, messages: int) -> Counter[str]:
    """Fuzz and give the counts."""
    counts: Counter[str] = Counter()
    connections = 0
    while counts["messages"] < messages:
        connections += 1
        rng = Random(seed * 1_000_003 + connections)
        link = _Link(rng, rng.random() < 0.5)
        try:
            for _ in range(PER_CONNECTION):
                before = link.sent
                try:
                    if rng.random() < 0.2:
                        counts["messages"] += 2
                        _greet(rng)
                    else:
                        _use(rng, link)
                    counts["believed"] += 1
                except (FrameError, GoneError):
                    counts["cut"] += 1
                    link.close()
                    link = _Link(rng, rng.random() < 0.5)
                except (PenstockError, EndedSessionError):
                    counts["refused"] += 1
                finally:
                    counts["messages"] += max(link.sent - before, 0)
        except BaseException as error:
            error.add_note(f"seed {seed}, connection {connections}")
            raise
        finally:
            link.close()
    return counts
