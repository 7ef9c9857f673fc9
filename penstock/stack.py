"""Room for deep recursion: a thread with a large stack, and a higher limit while it runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: Python calls inside one another, at most. A parser takes about twenty for a pair of parentheses.
FRAMES = 20_000
#: Stack of the thread in bytes, of which only what is used takes memory. Where a call goes through
#: C, as that of ``map``, it takes about 1 KiB, so FRAMES of them leave room.
STACK_BYTES = 64 << 20

_lock = threading.Lock()
_running = 0
_usual_limit = 0


def run_deep(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises, with room for FRAMES calls inside one another.

    Raises
    ------
    RecursionError
        It needs more; nothing else is harmed.
    """
    job = _Job(work)
    with _lock:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread = threading.Thread(target=job.run, name="penstock-deep", daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    return job.result()


class _Job(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.returned: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        _raise_limit()
        try:
            self.returned.append(self.work())
        except BaseException as error:  # the caller's thread raises it
            self.error = error
        finally:
            _restore_limit()

    def result(self) -> T:
        if self.error is None:
            return self.returned[0]
        try:
            raise self.error
        finally:
            self.error = None  # its traceback holds this frame


def _raise_limit() -> None:
    """The limit is the process's, so it is raised by the first job and restored by the last."""
    global _running, _usual_limit
    with _lock:
        if not _running:
            _usual_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_usual_limit, FRAMES))
        _running += 1


def _restore_limit() -> None:
    global _running
    with _lock:
        _running -= 1
        if not _running:
            sys.setrecursionlimit(_usual_limit)
