"""Waits for the signals that end a server.

The system may give a signal to any thread. Python's handlers run in the main thread only, and one
that waits for a lock does not wake up for a signal that another thread was given: it would be lost.
What Python writes to a descriptor for each signal, whichever thread it came to, is not.
"""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

#: Ctrl-C, and what service managers send.
_STOPS = (signal.SIGINT, signal.SIGTERM)


class Stops:
    """Signals that ask this process to end.

    Parameters
    ----------
    told : socket
        Has a byte for each signal.
    """

    def __init__(self, told: socket.socket) -> None:
        self._told = told

    def wait(self) -> None:
        """Wait for SIGINT or SIGTERM; one that came before counts, too."""
        while True:
            select.select([self._told], [], [])
            if set(self._told.recv(4096)) & {*map(int, _STOPS)}:
                return


@contextmanager
def stops() -> Iterator[Stops]:
    """Let SIGINT and SIGTERM only end :meth:`Stops.wait`; for the main thread."""
    told, tell = socket.socketpair()
    with told, tell:
        tell.setblocking(False)
        descriptor = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, lambda *_: None) for number in _STOPS}
        try:
            yield Stops(told)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(descriptor)
