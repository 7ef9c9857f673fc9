"""Channels there and back to another side, by each provider: what the conformance suite tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from penstock.host.channel import (
    Consumer,
    Doorbell,
    MessageKind,
    ProcessGoneError,
    Producer,
    Ringer,
    shm,
)
from penstock.host.channel.ucx.network import SHARED_MEMORY
from tests.host.channel import sim
from tests.host.channel.peer import PATIENCE_S
from tests.host.channel.programs import PROGRAMS, Ready
from tests.host.channel.ucx_subject import ucx_maker


class Subject(Protocol):
    """A channel to another side that runs a program, and one back."""

    producer: Producer
    consumer: Consumer

    def until(self, ready: Ready) -> None:
        """Wait until something is ready; TimeoutError if that takes too long."""
        ...

    def kill(self) -> None:
        """End the other side at once."""
        ...


class Peer:
    """The process of the other side."""

    def __init__(self) -> None:
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(PATIENCE_S)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("peer.py")), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
            )
        _, files, _, _ = socket.recv_fds(self.link, 16, 2)
        self.ringer = Ringer((files[0], files[1]))
        os.close(files[1])
        self.pidfd = os.pidfd_open(self.process.pid)
        self.bell = Doorbell.create()
        self.bell.watch(self.pidfd, "the peer")

    def close(self) -> None:
        self.bell.unwatch(self.pidfd)
        self.bell.close()
        self.ringer.close()
        self.link.close()
        os.close(self.pidfd)
        self.process.wait(PATIENCE_S)


class ShmSubject:
    """Channels of shared memory, to another process."""

    def __init__(
        self,
        peer: Peer,
        program: str,
        slots: int,
        slot_bytes: int,
        *,
        crc: bool = False,
        spin_s: float = 50e-6,
    ) -> None:
        self._peer, self._spin_s = peer, spin_s
        there, back = (shm.create(slots, slot_bytes, crc=crc) for _ in range(2))
        self.producer = there.producer(peer.ringer.ring)
        self.consumer = back.consumer(peer.ringer.ring)
        me = os.pidfd_open(os.getpid())
        request = json.dumps({"program": program, "spin_s": spin_s}).encode()
        files = [there.file, back.file, *peer.bell.files, me]
        socket.send_fds(peer.link, [request], files)
        for ends in (there, back):
            ends.close()
        os.close(me)

    def until(self, ready: Ready) -> None:
        if not self._peer.bell.wait(ready, PATIENCE_S, spin_s=self._spin_s):
            raise TimeoutError("the peer does nothing")

    def kill(self) -> None:
        self._peer.process.send_signal(signal.SIGKILL)

    def finish(self) -> None:
        """Wait for the end of the program."""
        assert self._peer.link.recv(16) == b"done"


class SimSubject:
    """Channels of simulated memory, to a program in this process."""

    def __init__(
        self,
        program: str,
        slots: int,
        slot_bytes: int,
        *,
        seed: int = 0,
        crc: bool = False,
    ) -> None:
        self._there, self.producer, consumer = sim.create(
            slots, slot_bytes, crc=crc, grain_bytes=16
        )
        self._back, producer, self.consumer = sim.create(
            slots, slot_bytes, crc=crc, channel=2, grain_bytes=16
        )
        self._delays = sim.Delays(seed, self._there, self._back)
        self._program: Iterator[Ready] | None = PROGRAMS[program](consumer, producer)
        self._waits_for: Ready = lambda: True

    def until(self, ready: Ready) -> None:
        for _ in range(1_000_000):
            if ready():
                return
            if self._program is not None and self._waits_for():
                self._waits_for = next(self._program, lambda: False)
            if not self._delays.wait(ready, most_steps=1) and not self._is_alive():
                raise ProcessGoneError("the peer has ended", "the peer")
        raise TimeoutError("the peer does nothing")

    def _is_alive(self) -> bool:
        return self._program is not None

    def kill(self) -> None:
        self._program = None
        self._delays.kill("the peer", self._there.backward, self._back.forward)

    def finish(self) -> None:
        """The program has nothing more to do when CLOSE has come back."""


class Caller:
    """Sends to a subject and keeps what comes back, serving while it waits."""

    def __init__(self, subject: Any) -> None:
        self.subject = subject
        self.taken: list[tuple[MessageKind, bytes]] = []

    def send(self, kind: MessageKind, payload: Any = b"") -> None:
        producer = self.subject.producer
        producer.send(kind, payload)
        while not producer.pump():
            if not self.serve():
                self.subject.until(
                    lambda: producer.credits > 0 or self.subject.consumer.has_arrived
                )

    def serve(self) -> bool:
        message = self.subject.consumer.receive()
        if message is None:
            return False
        self.taken.append((message.kind, bytes(message.payload)))
        self.subject.consumer.done(message)
        return True

    def take(self, count: int) -> list[tuple[MessageKind, bytes]]:
        """What comes back, until there are so many messages."""
        while len(self.taken) < count:
            if not self.serve():
                self.subject.until(lambda: self.subject.consumer.has_arrived)
        return self.taken

    def close(self) -> None:
        """End the program: CLOSE there and back."""
        self.send(MessageKind.CLOSE)
        while not self.subject.consumer.closed:
            if not self.serve():
                self.subject.until(lambda: self.subject.consumer.has_arrived)
        self.subject.finish()


Make = Callable[..., Any]


def makers(stack: ExitStack) -> dict[str, Make]:
    """What makes subjects, by provider; one process serves all of shared memory."""
    peers: list[Peer] = []

    def peer() -> Peer:
        if peers and peers[-1].process.poll() is not None:
            peers.clear()
        if not peers:
            peers.append(Peer())
            stack.callback(peers[-1].close)
        return peers[-1]

    def make_shm(program: str, slots: int, slot_bytes: int, **options: Any) -> ShmSubject:
        options.pop("seed", None)
        return ShmSubject(peer(), program, slots, slot_bytes, **options)

    return {
        "shm": make_shm,
        "sim": SimSubject,
        "ucx tcp": ucx_maker(stack, "tcp,self"),
        "ucx memory": ucx_maker(stack, SHARED_MEMORY),
    }
