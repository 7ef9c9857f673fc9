"""Waits for the signals that end a server.

The system may give a signal to any thread. Python's handlers run in the main thread only, and one
that waits for a lock does not wake up for a signal that another thread was given: it would be lost.
What Python writes to a descriptor for each signal, whichever thread it came to, is not.
"""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Ctrl-C, and what service managers send.
_STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stops() -> Iterator[Callable[[], None]]:
    """Let SIGINT and SIGTERM only end a function that waits for one; for the main thread.

    A signal that came before the call ends it at once.
    """
    told, tell = socket.socketpair()

    def wait() -> None:
        while True:
            select.select([told], [], [])
            if set(told.recv(4096)) & {*map(int, _STOPS)}:
                return

    with told, tell:
        tell.setblocking(False)
        descriptor = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, lambda *_: None) for number in _STOPS}
        try:
            yield wait
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(descriptor)
