"""Waits for the signals that end a server.

The system may give a signal to any thread, but Python's handlers run in the main thread only. If
that thread waits for a lock, a signal to another thread does not wake it. So it waits for a
descriptor instead, to which Python writes for each signal, whichever thread got it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .terminal import note, say

#: Seconds that what runs gets to end when a server is stopped.
GRACE_S = 10.0
#: Ctrl-C, and what service managers send.
_STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stops() -> Iterator[Callable[[], None]]:
    """Give a function that waits for SIGINT or SIGTERM; they have no other effect meanwhile.

    For the main thread. A signal that came before the call ends the wait at once.
    """
    receiver, tell = socket.socketpair()

    def wait() -> None:
        while True:
            select.select([receiver], [], [])
            if set(receiver.recv(4096)) & {*map(int, _STOPS)}:
                return

    with receiver, tell:
        tell.setblocking(False)
        descriptor = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, lambda *_: None) for number in _STOPS}
        try:
            yield wait
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(descriptor)


def stopped(over: bool) -> None:
    """Say that a server has stopped; if connections are not over, end without their threads."""
    say("stopped")
    if not over:
        note("a client did not let go of its connection; it was cut")
        # Its thread would be waited for.
        sys.stdout.flush()
        os._exit(0)
