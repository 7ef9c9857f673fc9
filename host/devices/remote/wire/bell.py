"""Wakes the process at the other end of a connection, where both map memory."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from penstock.errors import DeviceError

from ....channel.atomics import announce, store_release, take_announced
from ....wire.transport import GoneError

#: Words of a doorbell that say whether its process sleeps until something arrives, or until there
#: is a credit, in lines of their own: to ring for the other would wake it in vain.
ARRIVALS, CREDITS = 0, 64 // 8
_RING = b"\1"
#: Bytes of rings that are taken at once, since they heap up.
_TAKEN_BYTES = 4096


class ConnectionBell:
    """A doorbell whose event is a connection: who rings sends a byte through it.

    It is what :class:`~penstock.host.channel.Doorbell` is to processes with many channels, for the
    one thread of a connection.

    Parameters
    ----------
    connection : socket
    here, there : array of uint64
        Words of both sides, in memory that both map.
    stall_s : float
        Seconds of a wait, at most.

    Raises
    ------
    DeviceError
        There is no descriptor left.
    """

    def __init__(
        self, connection: socket.socket, ours: np.ndarray, theirs: np.ndarray, stall_s: float
    ) -> None:
        self._connection = connection
        self._ours, self._theirs = ours, theirs
        self._stall_s = stall_s
        # Whether the last wait was so short that spinning may do: who waits for a task, or is idle,
        # need not keep a core busy before.
        self._spins = True
        # To sleep in recv() would do. But who is woken from there is put on the core of the process
        # that rings, and both then wait for each other's spinning.
        try:
            self._poll = select.epoll()
        except OSError as cause:
            raise DeviceError(
                f"no channel: {cause.strerror}; raise ulimit -n, or use transport socket"
            ) from cause
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def ring(self, reason: int) -> None:
        """Wake the other side if it sleeps for this reason; call it once the reason is gone."""
        if take_announced(self._theirs, reason):
            # Where no ring fits any more, it wakes anyway; who has gone is found by who waits.
            with suppress(OSError):
                self._connection.send(_RING, socket.MSG_DONTWAIT)

    def wait(self, reason: int, ready: Callable[[], bool], spin_s: float) -> None:
        """Wait until something is ready, the other side has rung, or it took too long.

        Parameters
        ----------
        reason : int
            What it waits for: :data:`ARRIVALS` or :data:`CREDITS`.
        ready : callable
            Looks at the channel; must not wait.
        spin_s : float
            Seconds of asking again and again before it sleeps; not at all behind a wait that took
            twice as long.

        Raises
        ------
        GoneError
            The connection has ended, and nothing is ready.
        """
        began = time.perf_counter()
        until = began + (spin_s if self._spins else 0.0)
        while time.perf_counter() < until:
            if ready():
                return
            # Whoever was just woken may be on this core.
            os.sched_yield()
        announce(self._ours, reason)
        try:
            # Who published before it could see the announcement did not ring, but is seen here.
            if ready():
                return
            rung = bool(self._poll.poll(self._stall_s))
            self._spins = time.perf_counter() - began < 2 * spin_s
        finally:
            store_release(self._ours, reason, 0)
        if rung and not self._take_rings() and not ready():
            raise GoneError("the connection was closed")

    def close(self) -> None:
        """Wait no more."""
        self._poll.close()

    def _take_rings(self) -> bool:
        """Read the rings that came through the connection; False if it has ended."""
        try:
            return bool(self._connection.recv(_TAKEN_BYTES, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False
