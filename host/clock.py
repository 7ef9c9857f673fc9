"""A thread that does what is due: it sleeps until then, or until something changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Seconds between looks where nothing is due; a lost wake-up costs no more than this.
LONGEST_S = 1.0


class Clock:
    """Calls ``tick`` when it is due.

    Parameters
    ----------
    tick : callable
        Does what is due at the time it is given (monotonic seconds), and says when it wants to be
        called again: None for not before :meth:`wake`. It must not raise.
    """

    def __init__(self, tick: Callable[[float], float | None]) -> None:
        self._tick = tick
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="penstock-clock", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something has changed: look again what is due."""
        self._wake.set()

    def close(self, timeout_s: float) -> None:
        """End the thread; a tick that is going on ends first, within ``timeout_s``."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            due = self._tick(time.monotonic())
            left = LONGEST_S if due is None else due - time.monotonic()
            if left > 0:
                self._wake.wait(min(left, LONGEST_S))
