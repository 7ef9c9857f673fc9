"""Channels through UCX to another process, for the conformance suite."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from penstock.host.channel import Doorbell
from penstock.host.channel.ucx import Network, UcxLink
from penstock.host.channel.ucx.network import SHARED_MEMORY
from tests.host.channel.peer import PATIENCE_S
from tests.host.channel.programs import Ready


class UcxPeer:
    """The process of the other side of channels through UCX."""

    def __init__(self, transports: str) -> None:
        file = Path(__file__).with_name("ucx_peer.py")
        self.process = subprocess.Popen(
            [sys.executable, str(file), transports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.bell = Doorbell.create()
        self.network = Network(self.bell, transports=transports)
        self.pidfd = os.pidfd_open(self.process.pid)
        if transports == SHARED_MEMORY:  # others notice a death by themselves
            self.bell.watch(self.pidfd, "the peer")

    def ask(self, line: str) -> None:
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)

    def tell(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.network.close()
        self.bell.unwatch(self.pidfd)
        self.bell.close()
        os.close(self.pidfd)
        self.process.communicate(timeout=PATIENCE_S)


class UcxSubject:
    """Channels through UCX, to another process."""

    def __init__(
        self,
        peer: UcxPeer,
        program: str,
        slots: int,
        slot_bytes: int,
        *,
        crc: bool = False,
        spin_s: float = 50e-6,
    ) -> None:
        self._peer, self._spin_s = peer, spin_s
        self.link = UcxLink(
            peer.network, peer.bell, "the peer", slots=slots, slot_bytes=slot_bytes, crc=crc
        )
        peer.ask(f"{program} {slots} {slot_bytes} {crc} {spin_s} {self.link.offer().hex()}")
        self.producer, self.consumer = self.link.connect(bytes.fromhex(peer.tell()))

    def until(self, ready: Ready) -> None:
        if not self._peer.bell.wait(ready, PATIENCE_S, spin_s=self._spin_s):
            raise TimeoutError("the peer does nothing")

    def kill(self) -> None:
        self._peer.process.kill()

    def finish(self) -> None:
        """Wait for the end of the program."""
        # What the peer has sent comes to an end only while this side looks at it.
        said = self._peer.process.stdout
        assert said is not None
        self.until(lambda: bool(select.select([said], [], [], 0)[0]))
        assert self._peer.tell() == "done"
        self.link.close()


def ucx_maker(stack: ExitStack, transports: str) -> Callable[..., UcxSubject]:
    """What makes subjects of UCX over some transports; one process serves until it is killed."""
    peers: list[UcxPeer] = []

    def make(program: str, slots: int, slot_bytes: int, **options: Any) -> UcxSubject:
        options.pop("seed", None)
        if not peers or peers[-1].process.poll() is not None:
            peers.append(UcxPeer(transports))
            stack.callback(peers[-1].close)
        return UcxSubject(peers[-1], program, slots, slot_bytes, **options)

    return make
