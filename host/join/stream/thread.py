"""The thread of a running join: all changes of the join happen in it.

A caller hands over each call as one object in a queue. An exception raised in the caller's thread,
Ctrl-C above all, comes before or after that: the call is done wholly or not at all, in the order of
the queue, and no other call runs meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from ...execute.bells import LOOK_S

T = TypeVar("T")


class Inbox(Protocol[T]):
    """A queue; only one thread takes from it."""

    def put(self, item: T) -> None: ...

    def get(self, block: bool = True, timeout: float | None = None) -> T: ...

    def empty(self) -> bool: ...

    def qsize(self) -> int: ...


class _Call(Generic[T]):
    """A call in the queue, and its outcome."""

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do
        self._claim = threading.Lock()
        self._over = threading.Lock()
        self._over.acquire()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do the call, unless another thread has begun it."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._value = self._do()
        except BaseException as error:
            self._error = error
        self._over.release()

    def outcome(self) -> T:
        """Wait for the end; return the value, or raise the exception."""
        while not self._over.acquire(timeout=LOOK_S):
            pass
        if self._error is not None:
            raise self._error
        return self._value


class StreamThread:
    """Does calls one after the other, and work that is due between them.

    Parameters
    ----------
    tick : callable
        Does the work due at a time (argument, monotonic seconds), and returns the time of its next
        call; None for none before a call or :meth:`wake`. It must not raise.
    inbox : Inbox, optional
        Where calls wait; one that also wakes for other things gives :exc:`queue.Empty` then.
    """

    def __init__(
        self, tick: Callable[[float], float | None], inbox: Inbox[Any] | None = None
    ) -> None:
        self._tick = tick
        self._inbox: Inbox[Any] = SimpleQueue() if inbox is None else inbox
        self._posted: deque[Callable[[], None]] = deque()
        #: Whether the thread waits with a timeout, so that it wakes up by itself.
        self._is_timed = False
        self._ending = self._ended = False
        self._thread = threading.Thread(target=self._run, name="penstock-stream", daemon=True)
        self._thread.start()

    def call(self, do: Callable[[], T]) -> T:
        """Call ``do`` in the thread, and wait for it.

        After the thread has ended, ``do`` is called here: there are no further changes.
        """
        call = _Call(do)
        self._inbox.put(call)
        if self._ended:  # the thread has done all earlier calls
            call.run()
        return call.outcome()

    @property
    def posted(self) -> int:
        """Approximate number of posted calls that have not begun."""
        return len(self._posted)

    def post(self, do: Callable[[], None]) -> None:
        """Call ``do`` before any later call, without waiting for it; it must not raise.

        If the thread wakes up by itself, it is not woken for this.
        """
        self._posted.append(do)
        if not self._is_timed:
            self.wake()

    def wake(self) -> None:
        """Make the thread look again for due work. Never waits."""
        if self._inbox.empty():
            self._inbox.put(None)

    def end(self) -> None:
        """Let the thread end; called in the thread."""
        self._ending = True

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended."""
        self._thread.join(timeout_s)

    def do_posted(self) -> None:
        """Do posted calls; called in the thread."""
        while self._posted:
            self._posted.popleft()()

    def _run(self) -> None:
        due: float | None = None
        while not self._ending:
            self._is_timed = due is not None
            # A call posted before may not have woken the thread.
            left = None if due is None else due - time.monotonic()
            self._take(0.0 if self._posted and due is None else left)
            if not self._ending:
                due = self._tick(time.monotonic())
        self._ended = True
        self._do_waiting()

    def _take(self, wait_s: float | None) -> None:
        """Wait at most ``wait_s`` for the next call, and do all calls in the queue."""
        try:
            if wait_s is None or wait_s > 0:
                self._do(self._inbox.get(timeout=wait_s))
        except Empty:
            pass
        self._do_waiting()

    def _do_waiting(self) -> None:
        for _ in range(self._inbox.qsize()):
            self._do(self._inbox.get())  # only this thread takes calls
        self.do_posted()

    def _do(self, call: _Call | None) -> None:
        self.do_posted()
        if call is not None:
            call.run()
