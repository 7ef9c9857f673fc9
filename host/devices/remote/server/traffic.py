"""Memory of messages, waiting tasks and results: counted before it is allocated."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Self

from penstock.errors import OverloadError


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
