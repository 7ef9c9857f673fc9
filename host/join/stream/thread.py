"""The thread of a running join, in which everything happens that changes it.

A caller hands over what is to be done as one object in a queue. An exception that is raised in the
caller's thread, Ctrl-C above all, comes before that or after it: the call is done wholly or not at
all, in the order of the queue, and nothing else runs meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from ...execute.bells import LOOK_S

T = TypeVar("T")


class _Call(Generic[T]):
    """A call on its way, and its outcome."""

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do
        self._claim = threading.Lock()
        self._over = threading.Lock()
        self._over.acquire()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do it, unless somebody has begun to."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._value = self._do()
        except BaseException as error:
            self._error = error
        self._over.release()

    def outcome(self) -> T:
        """Wait for the end; its value, or its exception."""
        while not self._over.acquire(timeout=LOOK_S):
            pass
        if self._error is not None:
            raise self._error
        return self._value


class StreamThread:
    """Does calls one after the other, and what is due between them.

    Parameters
    ----------
    tick : callable
        Does what is due at the time it is given (monotonic seconds), and says when it wants to be
        called again: None for not before a call or :meth:`wake`. It must not raise.
    """

    def __init__(self, tick: Callable[[float], float | None]) -> None:
        self._tick = tick
        self._inbox: SimpleQueue[_Call | None] = SimpleQueue()
        self._posted: deque[Callable[[], None]] = deque()
        #: Whether the thread wakes up by itself before long.
        self._is_timed = False
        self._ending = self._ended = False
        self._thread = threading.Thread(target=self._run, name="penstock-stream", daemon=True)
        self._thread.start()

    def call(self, do: Callable[[], T]) -> T:
        """Do something in the thread, and wait for it.

        Once the thread has ended it is done here: nothing changes any more.
        """
        call = _Call(do)
        self._inbox.put(call)
        if self._ended:  # what came before that, the thread itself has done
            call.run()
        return call.outcome()

    @property
    def posted(self) -> int:
        """What was posted and has not begun, about."""
        return len(self._posted)

    def post(self, do: Callable[[], None]) -> None:
        """Do something before any later call, without waiting for it; it must not raise.

        Where a tick is due the thread is not woken for it.
        """
        self._posted.append(do)
        if not self._is_timed:
            self.wake()

    def wake(self) -> None:
        """Something has changed: look again what is due. Never waits."""
        if self._inbox.empty():
            self._inbox.put(None)

    def end(self) -> None:
        """Let the thread end; said from within it."""
        self._ending = True

    def join(self, timeout_s: float) -> None:
        """Wait until the thread is gone."""
        self._thread.join(timeout_s)

    def do_posted(self) -> None:
        """Do what was posted; in the thread."""
        while self._posted:
            self._posted.popleft()()

    def _run(self) -> None:
        due: float | None = None
        while not self._ending:
            self._is_timed = due is not None
            # What was posted before that may have woken nobody.
            left = None if due is None else due - time.monotonic()
            self._take(0.0 if self._posted and due is None else left)
            if not self._ending:
                due = self._tick(time.monotonic())
        self._ended = True
        self._do_waiting()

    def _take(self, wait_s: float | None) -> None:
        """Do the next call, once there is one or the time is over, and all that wait by then."""
        try:
            if wait_s is None or wait_s > 0:
                self._do(self._inbox.get(timeout=wait_s))
        except Empty:
            pass
        self._do_waiting()

    def _do_waiting(self) -> None:
        for _ in range(self._inbox.qsize()):
            self._do(self._inbox.get())  # nobody else takes any
        self.do_posted()

    def _do(self, call: _Call | None) -> None:
        self.do_posted()
        if call is not None:
            call.run()
