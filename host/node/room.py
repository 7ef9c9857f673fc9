"""Memory of the requests that a node answers at the moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import OverloadError


class RequestRoom:
    """Bytes that requests share. One that finds no room waits, and nothing more is read of it.

    Parameters
    ----------
    most : int
        Bytes; a request that needs more is answered by itself.
    wait_s : float
        Seconds after which a request is refused.
    """

    def __init__(self, most: int, wait_s: float) -> None:
        self.most, self._wait_s = most, wait_s
        self.used = self.waiting = 0
        self._free = threading.Condition()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Room for a request, for as long as the ``with`` block lasts.

        Raises
        ------
        OverloadError
            There was none in time.
        """
        deadline = time.monotonic() + self._wait_s
        size = min(size, self.most)
        with self._free:
            self.waiting += 1
            try:
                while self.used and self.used + size > self.most:
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._free.wait(left):
                        raise OverloadError(
                            f"the node had no room for {size:,} bytes within {self._wait_s:g} s: "
                            f"requests hold {self.used:,} of {self.most:,}; add nodes, or serve "
                            "with more --memory"
                        )
            finally:
                self.waiting -= 1
            self.used += size
        try:
            yield
        finally:
            with self._free:
                self.used -= size
                self._free.notify_all()
