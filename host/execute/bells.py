"""How a thread of a caller waits for what a join's own threads do.

An exception may be raised in a caller's thread at any moment: Ctrl-C in the main one. So it holds
no lock that others need and waits on nothing but an object of its own. Conditions and events of
``threading`` are no such thing: an interrupt within their Python code leaves their lock taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

#: Seconds after which who waits looks again: an exception for a thread that is not the main one
#: cannot end its wait.
LOOK_S = 0.25


class Bells:
    """Wakes all who wait for something that may have become true."""

    def __init__(self) -> None:
        self._bells: set[SimpleQueue[None]] = set()

    def ring(self) -> None:
        """Let all who wait look again."""
        for bell in tuple(self._bells):
            if bell.empty():
                bell.put(None)

    def wait_for(
        self, condition: Callable[[], bool], timeout_s: float, look_s: float = LOOK_S
    ) -> bool:
        """Wait until a condition is true; whether it is.

        Parameters
        ----------
        condition : callable
            Must need no lock.
        timeout_s : float
        look_s : float
            Seconds after which it is looked at without a ring.
        """
        if condition():
            return True
        deadline = time.monotonic() + timeout_s
        bell: SimpleQueue[None] = SimpleQueue()
        self._bells.add(bell)
        try:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                try:
                    bell.get(timeout=min(left, look_s))
                except Empty:
                    continue
            return True
        finally:
            self._bells.discard(bell)
