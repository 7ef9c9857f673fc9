"""Clients that take as much of a server as it gives them, for :mod:`bench.host.fairness`.

``python -m bench.host.attackers KIND ADDRESS`` says "ready" when it has begun, and ends with its
standard input.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count

import numpy as np

from penstock.expr import ops
from penstock.host.device.base import Task
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.wire.column_bytes import body_of, pack
from penstock.host.devices.remote.wire.tasks import task_message
from penstock.host.wire.frames import Frames, GoneError
from penstock.host.wire.handshake import greet
from penstock.program import BandProgram, GeneralProgram
from penstock.types import integer

#: One test of 32 bits.
PROGRAM = BandProgram(1, 0b10, 32)
#: Evaluations of a heavy task: as many as the join itself puts into one.
_HEAVY = 1 << 28
#: Tasks that a client can have waiting.
_DEPTH = 16


def compile_programs(address: str, begun: Callable[[], None]) -> None:
    """Open one new program after the other; each is another one to the compiler."""
    kind = integer(0, 1 << 30, nullable=False)
    stream, window = ops.key("s", 0, kind), ops.key("w", 0, kind)
    with RemoteDevice(address) as device:
        begun()
        for number in count(int.from_bytes(os.urandom(3), "big") << 8):
            other = ops.bit_xor(stream, ops.const(number % (1 << 30)))
            predicate = ops.lt(ops.bit_xor(other, window), ops.const(number % 1009))
            device.open(GeneralProgram((kind,), (kind,), predicate)).close()


def flood(address: str, begun: Callable[[], None]) -> None:
    """Ask from several threads at a time, and ask again as soon as there is an answer."""
    with RemoteDevice(address) as device:
        window = device.open(PROGRAM).allocate(8)
        window.write(0, [np.arange(8, dtype=np.uint32)])
        task = small_task(1, 8)
        begun()
        together(8, lambda: window.run(task))


def stall(address: str, begun: Callable[[], None]) -> None:
    """Ask for results on several connections, and read none of the answers."""
    with RemoteDevice(address, transport="socket") as device:
        window = device.open(PROGRAM).allocate(1 << 12)
        window.write(0, [np.arange(1 << 12, dtype=np.uint32)])
        task, columns = task_message(small_task(1 << 8, 1 << 12))
        where, parts = body_of(pack(columns))
        request = {"call": "task", "window": window.number, **task, **where}

        def ask() -> None:
            frames = greeted(device)
            # The server cuts whoever does not read, in time.
            with suppress(GoneError), closing(frames):
                while True:
                    frames.send(request, parts)

        begun()
        together(8, ask)


def greeted(device: RemoteDevice) -> Frames:
    """A connection for calls of a device's session."""
    path = device.address.path
    assert path is not None
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(path))
    frames = Frames(made)
    greet(frames, None, {"stream": "calls", "session": device.session().key})
    frames.open_up()
    return frames


def come_and_go(address: str, begun: Callable[[], None]) -> None:
    """Open sessions and programs, and close them again."""

    def visit() -> None:
        with RemoteDevice(address) as device:
            device.open(PROGRAM).allocate(8)

    visit()
    begun()
    together(4, visit)


def load(address: str, begun: Callable[[], None]) -> None:
    """Have as many heavy tasks waiting as the server lets a client have."""
    rows = 1 << 20
    with RemoteDevice(address) as device:
        window = device.open(PROGRAM).allocate(rows)
        window.write(0, [np.arange(rows, dtype=np.uint32)])
        task = small_task(_HEAVY // rows, rows)
        window.run(task)
        begun()
        together(_DEPTH, lambda: window.run(task))


def small_task(rows: int, positions: int) -> Task:
    """A task of so many tuples, each with the whole window, which few pairs pass."""
    low = np.zeros(rows, np.uint32)
    ends = np.full(rows, positions, np.int64)
    return Task([low, low], np.zeros(rows, np.int64), ends, max(1 << 12, rows))


def together(threads: int, act: Callable[[], object]) -> None:
    """Do something over and over in several threads."""

    def on_and_on() -> None:
        while True:
            act()

    for _ in range(threads):
        threading.Thread(target=on_and_on, daemon=True).start()
    threading.Event().wait()


KINDS = {
    "compiles": compile_programs,
    "floods": flood,
    "stalls": stall,
    "comes and goes": come_and_go,
    "loads": load,
}


def main() -> None:
    """Attack until standard input ends."""
    kind, address = sys.argv[1:]

    def begun() -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()

    attack = threading.Thread(target=KINDS[kind], args=(address, begun), daemon=True)
    attack.start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
