"""Messages straight to a session: each is decoded, checked and carried out as a server does it.

Only the thread that would receive them is missing, so that thousands go in a second.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import numpy as np

from penstock.host.devices.remote.server import service
from penstock.host.devices.remote.server.limits import Hold, ServerLimits, Traffic
from penstock.host.devices.remote.server.owner import DeviceOwner
from penstock.host.devices.remote.server.place import PeerPlaces
from penstock.host.devices.remote.server.session import ClientSession
from penstock.host.devices.remote.wire.channel import ChannelTransport
from penstock.host.devices.remote.wire.rings import Rings
from penstock.host.wire.frames import Frames
from tests.host.devices.remote.fuzz.changes import message
from tests.host.devices.remote.fuzz.talk import FuzzedCpu, Talker, programs
from tests.host.devices.remote.fuzz.watch import SECRET, Bugs, check_secret
from tests.host.kit.frames import put

#: Messages of one session; then another begins.
PER_SESSION = 200
#: Part of the messages that are changed.
RATE = 0.6


def limits() -> ServerLimits:
    """Limits small enough to be met."""
    return ServerLimits(
        memory_bytes=8 << 20, traffic_bytes=64 << 20, kernels=16, windows=32, room=4096
    )


@contextmanager
def flipping(memory: np.ndarray, seed: int) -> Iterator[None]:
    """Change bytes of shared memory all the time, from a thread."""
    over = threading.Event()

    def flip() -> None:
        rng = np.random.default_rng(seed)
        while not over.wait(1e-4):
            memory[rng.integers(0, len(memory), 64)] = rng.integers(0, 256, 64, np.uint8)

    thread = threading.Thread(target=flip, name="flipping")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def hide(session: ClientSession, traffic: Traffic) -> None:
    """Give a session windows that hold the secret."""
    for number, program in enumerate(programs()[1:4]):
        from penstock.host.device.programs import program_header

        with Hold(traffic, session.key) as hold:
            modes = sorted(mode.value for mode in program.modes)
            header = {"call": "open", "program": program_header(program), "modes": modes}
            kernel = session.call(header, [], hold)[0]["kernel"]
            for name in (None, f"hidden {number}"):
                asked = {"call": "allocate", "kernel": kernel, "capacity": 64}
                if name is not None:
                    asked |= dict.fromkeys(("scope", "block", "content"), name)
                    asked["call"] = "resident"
                window = session.call(asked, [], hold)[0]["window"]
                columns = [np.full(64, SECRET & 0xFFFFFFFF, np.uint32)] if number == 0 else []
                columns.append(np.full(64, SECRET, np.int64))
                session.call({"call": "write", "window": window, "offset": 0}, columns, hold)
                if name is not None:
                    session.call({"call": "loaded", "window": window}, [], hold)


class Dispatch:
    """A server's inside, with clients whose windows hold the secret.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self._limits = limits()
        self._places = PeerPlaces()
        self._traffic = Traffic(self._limits.all_traffic, self._limits.client_traffic)
        self._device = FuzzedCpu(1)
        self._owner = DeviceOwner(self._device, self._limits)
        self._victim = self._session("victim")
        with self._victim.place.entered():
            hide(self._victim, self._traffic)
        self._sessions = 0

    def _session(self, key: str) -> ClientSession:
        place = self._places.place(key)
        return ClientSession(key, key, self._owner, self._traffic, "here", place)

    def run(self, messages: int) -> None:
        """Send so many messages, and see that nothing that must not happen does.

        Raises
        ------
        AssertionError
        """
        with Bugs() as bugs:
            while self.counts["messages"] < messages:
                self._sessions += 1
                seed = self.seed * 1_000_003 + self._sessions
                try:
                    self._converse(seed, f"client {self._sessions}", bugs)
                except BaseException as error:
                    error.add_note(f"seed {self.seed}, session {self._sessions}")
                    raise

    def close(self) -> None:
        """Free everything, and see that nothing is left."""
        self._victim.end("over")
        self._owner.stop()
        assert self._owner.held() == {}, self._owner.held()
        assert self._traffic.held() == {}, self._traffic.held()

    def _converse(self, seed: int, key: str, bugs: Bugs) -> None:
        rng = Random(seed)
        session, talker = self._session(key), Talker(rng)
        here, there = (Frames(end, 5.0) for end in socket.socketpair())
        there.open_up()
        try:
            if rng.random() < 0.5:
                over(here, there, key)
            for _ in range(PER_SESSION):
                header, columns = talker.next()
                sent, what = message(rng, header, columns, RATE)
                if what == "changed header" and rng.random() < 0.01:
                    sent = bytes(sent[:4]) + rng.randbytes(12) + sent[16:]
                put(here, sent)
                # A prefix that promises more than comes ends the conversation.
                if sent[4:16] != _lengths(sent):
                    here.cancel()
                with Hold(self._traffic, key) as hold:
                    going_on = self._one(session, there, hold, talker, what)
                assert not bugs.found, bugs.found[0]
                if not going_on:
                    break
        finally:
            session.end("over")
            here.close()
            there.close()

    def _one(
        self,
        session: ClientSession,
        frames: Frames,
        hold: Hold,
        talker: Talker,
        what: str,
    ) -> bool:
        from penstock.host.wire.transport import GoneError

        self.counts["messages"] += 1
        self.counts[what] += 1
        try:
            with session.place.serving(frames):
                answer = service.answer_next(session, frames, hold)
        except GoneError:
            self.counts["gone"] += 1
            return False
        said = answer.header
        if "error" in said:
            self.counts["refused"] += 1
        else:
            self.counts["carried out"] += 1
            talker.heard(said)
        check_secret({k: v for k, v in said.items() if k != "error"}, list(answer.parts))
        return not answer.is_last


def over(client: Frames, server: Frames, session: str) -> Rings:
    """Let both ends of a connection go on through a channel; the memory of both."""
    rings = Rings.create(session)
    opened = Rings.open(rings.header(), session)
    rings.close()
    for frames, seen, is_server in ((client, rings, False), (server, opened, True)):
        frames.go_over(
            ChannelTransport(
                frames.connection, seen, is_server=is_server, spin_s=lambda: 0.0, stall_s=5.0
            )
        )
    return rings


def _lengths(sent: bytes) -> bytes:
    """The lengths that a frame would have by its size, if its prefix is right."""
    header, body = int.from_bytes(sent[4:8], "little"), int.from_bytes(sent[8:16], "little")
    return sent[4:16] if 16 + header + body == len(sent) else b""


def main(seed: int, messages: int) -> Counter[str]:
    """Fuzz and give the counts."""
    dispatch = Dispatch(seed)
    dispatch.run(messages)
    dispatch.close()
    return dispatch.counts
