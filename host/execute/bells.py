"""Lets a caller's thread wait for the threads of a join.

An exception may be raised in a caller's thread at any moment: Ctrl-C in the main one. So that
thread holds no lock that others need, and waits only on an object of its own. Conditions and events
of ``threading`` do not serve: an interrupt within their Python code leaves their lock taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

#: Seconds after which a waiting thread looks again: an exception cannot end the wait of a thread
#: other than the main one.
LOOK_S = 0.25


class Bells:
    """Wakes all threads that wait for a condition."""

    def __init__(self) -> None:
        self._bells: set[SimpleQueue[None]] = set()

    def ring(self) -> None:
        """Let all waiting threads test their conditions again."""
        for bell in tuple(self._bells):
            if bell.empty():
                bell.put(None)

    def wait_for(
        self, condition: Callable[[], bool], timeout_s: float, look_s: float = LOOK_S
    ) -> bool:
        """Wait until a condition is true; return whether it is.

        Parameters
        ----------
        condition : callable
            Must need no lock.
        look_s : float
            Seconds after which the condition is tested without a ring.
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
