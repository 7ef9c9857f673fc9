"""Limits on what clients take of a server, and the memory of messages that is counted."""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Self

from penstock.errors import OverloadError, UsageError


def half_of_memory() -> int:
    """Half of this machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """Limits of a server.

    Parameters
    ----------
    memory_bytes : int, optional
        Windows of all clients together; default: half of the machine's memory.
    client_memory_bytes : int, optional
        Windows of one client; default: half of ``memory_bytes``.
    traffic_bytes : int, optional
        Messages, waiting tasks and results of all clients together; default: a quarter of the
        machine's memory. One client gets at most half.
    depth : int
        Tasks of one client that wait for the device.
    clients : int
        Sessions at a time; one peer has half of them at most.
    idle_s : float
        Seconds without a call or a window after which a session makes room for another client, if
        there are too many.
    connections : int
        Connections at a time; one peer has half of them at most.
    client_connections : int
        Connections for calls of one session.
    kernels : int
        Programs that one client has open.
    windows : int
        Windows that one client has.
    residents : int
        Windows that are kept by name.
    evaluations : int
        Predicate tests of one task; clients cut theirs at a thirty-second of it.
    join_evaluations : int
        Predicate tests of one task of the window-join operator.
    room : int
        Pairs of one result; a task that has more pauses.
    lease_s : float
        Seconds without a sign of life after which a client's session ends.
    compile_s : float
        Seconds of one program's compilation.
    resident_s : float
        Seconds for which a window that is kept by name stays without being read.
    """

    memory_bytes: int | None = None
    client_memory_bytes: int | None = None
    traffic_bytes: int | None = None
    depth: int = 16
    clients: int = 64
    idle_s: float = 60.0
    connections: int = 512
    client_connections: int = 64
    kernels: int = 256
    windows: int = 4096
    residents: int = 1 << 14
    evaluations: int = 1 << 33
    join_evaluations: int = 1 << 40
    room: int = 1 << 24
    lease_s: float = 15.0
    compile_s: float = 60.0
    resident_s: float = 600.0

    def __post_init__(self) -> None:
        for name in vars(self):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} must be above 0, not {value!r}")

    @property
    def all_bytes(self) -> int:
        return half_of_memory() if self.memory_bytes is None else self.memory_bytes

    @property
    def client_bytes(self) -> int:
        chosen = self.client_memory_bytes
        return max(self.all_bytes // 2, 1) if chosen is None else chosen

    @property
    def all_traffic(self) -> int:
        return half_of_memory() // 2 if self.traffic_bytes is None else self.traffic_bytes

    @property
    def client_traffic(self) -> int:
        return max(self.all_traffic // 2, 1)


class Traffic:
    """Bytes that the calls of clients hold now.

    Parameters
    ----------
    most : int
        Bytes of all clients together.
    client_most : int
        Bytes of one client.
    """

    def __init__(self, most: int, client_most: int) -> None:
        self.most, self.client_most = most, client_most
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    def held(self) -> dict[str, int]:
        """Bytes by client."""
        with self._lock:
            return dict(self._held)

    def take(self, client: str, size: int) -> None:
        """Count bytes that are about to be allocated.

        Raises
        ------
        OverloadError
            They are above what the client, or all of them, may have.
        """
        with self._lock:
            held, everybody = self._held[client], self._held.total()
            if held + size > self.client_most or everybody + size > self.most:
                if not held:
                    del self._held[client]
                raise OverloadError(
                    f"a call needs {size} bytes of the server's memory for messages: this client "
                    f"has {held} of {self.client_most} in use, all have {everybody} of {self.most};"
                    " wait for results, use smaller tasks, or serve with a larger --traffic-mib"
                )
            self._held[client] += size

    def give_back(self, client: str, size: int) -> None:
        """Count bytes that are free again."""
        with self._lock:
            self._held[client] -= size
            if not self._held[client]:
                del self._held[client]


@dataclass(eq=False)
class Hold:
    """Bytes that one call holds, until it is answered.

    Parameters
    ----------
    traffic : Traffic
    client : str
    """

    traffic: Traffic
    client: str
    _size: int = 0

    def more(self, size: int) -> None:
        """Count bytes that are about to be allocated.

        Raises
        ------
        OverloadError
        """
        self.traffic.take(self.client, size)
        self._size += size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        size, self._size = self._size, 0
        if size:
            self.traffic.give_back(self.client, size)
