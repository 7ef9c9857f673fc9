"""A real server in a process of its own, attacked over its socket beside clients that mean well."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import numpy as np

from penstock.errors import PenstockError
from penstock.host.device.base import PAIRS, Task
from penstock.host.device.fields import Header
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.wire.address import Address
from penstock.host.wire.errors import error_from
from penstock.host.wire.frames import MAGIC, Frames
from penstock.host.wire.handshake import Role, greet, new_nonce, proof
from penstock.host.wire.message import PROTOCOL
from penstock.host.wire.transport import FrameError, GoneError
from penstock.program import Mode
from tests.host.devices.remote.fuzz.changes import changed, frame, message
from tests.host.devices.remote.fuzz.dispatch import flipping
from tests.host.devices.remote.fuzz.talk import Talker, programs
from tests.host.devices.remote.fuzz.watch import MOST_GROWTH, SECRET, check_secret, resident_bytes
from tests.host.kit.frames import dialled, go_over, put
from tests.host.kit.serving import socket_address

#: Messages of one attacker, and attackers between two looks at the clients that mean well.
PER_ATTACKER, PER_LOOK = 60, 20
RATE = 0.6
TOKEN = "0123456789abcdef0123456789abcdef"

#: A server, which prints bugs that it logs.
SERVER = """
import sys, threading
from tests.host.devices.remote.fuzz.dispatch import limits
from tests.host.devices.remote.fuzz.talk import FuzzedCpu
from tests.host.kit.serving import serving

with serving({"cpu": FuzzedCpu(2)}, limits(), address=sys.argv[1], token=sys.argv[2]):
    print("serving", flush=True)
    threading.Event().wait(100000)
"""
ROOT = Path(__file__).parents[5]


@contextmanager
def served() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server's address and process; what it wrote to its log is shown if it died."""
    with socket_address() as address:
        log = Path(address.removeprefix("unix://") + ".log")
        with log.open("w") as err:
            process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", SERVER, address, TOKEN],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "serving", log.read_text()
            yield address, process
            assert process.poll() is None, f"the server died: {log.read_text()[-3000:]}"
            said = log.read_text()
            assert "Traceback" not in said, f"the server has a bug: {said[:3000]}"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()


class Victim:
    """A client whose windows hold the secret, and whose tasks must go right."""

    def __init__(self, address: str, transport: str) -> None:
        token = Path(address.removeprefix("unix://") + ".token")
        token.touch(0o600)
        token.write_text(TOKEN)
        self.device = RemoteDevice(
            address, transport=transport, answer_s=60.0, resume_s=0.1, token_file=token
        )
        self.kernel = self.device.open(programs()[2], frozenset({Mode.MIN}) | PAIRS)
        self.window = self.kernel.allocate(64)
        self.window.write(0, [np.full(64, SECRET, np.int64)])

    def look(self) -> None:
        """Run a task and compare."""
        ends = np.array([64, 64]), np.array([SECRET, SECRET + 1])
        task = Task([ends[1]], np.zeros(2, np.int64), ends[0], 100, Mode.MIN)
        folds = self.kernel.submit(self.window, task).result(60).folds
        assert folds is not None
        assert folds.found.tolist() == [True, False], folds
        assert folds.value.tolist() == [SECRET, 0], folds


def attack(address: Address, rng: Random, counts: Counter[str]) -> None:
    """One attacker: a session and a connection for calls, both of which may go wrong."""
    with ExitStack() as stack:
        held = stack.enter_context(_closing(Frames(dialled(address), 30.0)))
        if rng.random() < 0.2:
            rng.choice((_rubbish, _greeting))(held, rng, counts)
            return
        welcome = greet(held, TOKEN, {"stream": "session", "name": "attacker", "device": None})
        if "error" in welcome:
            raise error_from(welcome["error"], "here")
        frames = stack.enter_context(_closing(Frames(dialled(address), 30.0)))
        greet(frames, TOKEN, {"stream": "calls", "session": welcome["session"]})
        frames.open_up()
        if rng.random() < 0.6:
            memory = go_over(frames, welcome["session"]).memory
            if rng.random() < 0.5:
                stack.enter_context(flipping(memory, rng.randrange(1 << 30)))
        with suppress(FrameError):  # what it has changed itself
            _converse(frames, Talker(rng), rng, counts)


def _converse(frames: Frames, talker: Talker, rng: Random, counts: Counter[str]) -> None:
    for _ in range(PER_ATTACKER):
        header, columns = talker.next()
        sent, _ = message(rng, header, columns, RATE)
        if rng.random() < 0.01:
            sent = sent[: rng.randrange(len(sent))]
        counts["messages"] += 1
        put(frames, sent)
        if len(sent) < 16 or sent[4:16] != _lengths(sent):
            return  # the rest never comes
        answer, body = frames.receive()
        counts["refused" if "error" in answer else "carried out"] += 1
        told = {name: value for name, value in answer.items() if name != "error"}
        check_secret(told, [] if body is None else [body])
        if "error" not in answer:
            talker.heard(answer)


def _rubbish(frames: Frames, rng: Random, counts: Counter[str]) -> None:
    """Bytes that are no frames, or the beginning of a large one."""
    counts["messages"] += 1
    size = rng.choice((0, 100, 1 << 12, 1 << 32))
    frames.connection.sendall(
        rng.choice(
            (
                rng.randbytes(rng.randrange(1, 500)),
                MAGIC + rng.randbytes(12),
                MAGIC + (100).to_bytes(4, "little") + size.to_bytes(8, "little") + b"{",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rng.randbytes(50),
            )
        )
    )
    if rng.random() < 0.5:
        return  # and hang up
    frames.end()


def _greeting(frames: Frames, rng: Random, counts: Counter[str]) -> None:
    """A greeting with changes; nobody who does not know the token is let in."""
    nonce = new_nonce()
    hello: Header = {"protocol": PROTOCOL, "version": "1", "nonce": nonce}
    wants: Header = {"stream": "session", "name": "x", "device": None, "session": "y" * 32}
    answer: Header = {}
    for number, true in enumerate((hello, wants)):
        said = changed(rng, true) if rng.random() < 0.6 else true
        knows = False
        if number:
            proven = proof(TOKEN, Role.CLIENT, PROTOCOL, nonce, str(answer.get("nonce")))
            knows = rng.random() < 0.5 and isinstance(said, dict)
            if knows:
                said["proof"] = proven
            elif isinstance(said, dict) and rng.random() < 0.8:
                said["proof"] = rng.choice((answer.get("proof"), proven[:-1], nonce, "\ud800"))
        counts["messages"] += 1
        frames.connection.sendall(frame(json.dumps(said).encode(), b""))
        answer, _ = frames.receive()
        assert number == 0 or knows or "error" in answer, f"{said!r} was let in"
        if "error" in answer:
            counts["refused"] += 1
            return


def _lengths(sent: bytes) -> bytes:
    header, body = int.from_bytes(sent[4:8], "little"), int.from_bytes(sent[8:16], "little")
    return sent[4:16] if 16 + header + body == len(sent) else b""


@contextmanager
def _closing(frames: Frames) -> Iterator[Frames]:
    try:
        yield frames
    finally:
        frames.close()


def main(seed: int, messages: int) -> Counter[str]:
    """Fuzz and give the counts."""
    counts: Counter[str] = Counter()
    with served() as (address, process), ExitStack() as stack:
        victims = [Victim(address, transport) for transport in ("channel", "socket")]
        for victim in victims:
            stack.callback(victim.device.close)
        attackers, before = 0, 0
        while counts["messages"] < messages:
            attackers += 1
            rng = Random(seed * 1_000_003 + attackers)
            try:
                with suppress(PenstockError, GoneError, ConnectionError):
                    attack(Address.parsed(address), rng, counts)
                if attackers % PER_LOOK == 0:
                    for victim in victims:
                        victim.look()
            except BaseException as error:
                error.add_note(f"seed {seed}, attacker {attackers}")
                raise
            if attackers == 2 * PER_LOOK:
                before = resident_bytes(process.pid)
        counts["growth"] = max(resident_bytes(process.pid) - before, 0) if before else 0
        assert counts["growth"] <= MOST_GROWTH, f"memory grew by {counts['growth']} bytes"
    return counts
