"""Make room for deep recursion: a thread with a large stack, and a higher limit while it runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

#: Python calls inside one another, at most. A parser takes about twenty for a pair of parentheses.
FRAMES = 20_000
#: Stack of the thread in bytes; only its used part takes memory. A call through C, such as that of
#: ``map``, takes about 1 KiB, so FRAMES of them leave room.
STACK_BYTES = 64 << 20

_lock = threading.Lock()
_running = 0
_usual_limit = 0


def run_deep(work: Callable[[], T]) -> T:
    """Do work with room for FRAMES calls inside one another.

    Raises
    ------
    RecursionError
        The work needs more; nothing else is affected.
    """
    result: Future[T] = Future()
    with _lock:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread = threading.Thread(
                target=_run, args=(work, result), name="penstock-deep", daemon=True
            )
            thread.start()
        finally:
            threading.stack_size(before)
    try:
        return result.result()
    finally:
        del result  # an error's traceback holds this frame


def _run(work: Callable[[], T], result: Future[T]) -> None:
    try:
        with _raised_limit():
            returned = work()
    except BaseException as error:  # the caller's thread raises it
        result.set_exception(error)
    else:
        result.set_result(returned)


@contextmanager
def _raised_limit() -> Iterator[None]:
    """Raise the recursion limit of the process; the first job does, and the last restores it."""
    global _running, _usual_limit
    with _lock:
        if not _running:
            _usual_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_usual_limit, FRAMES))
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                sys.setrecursionlimit(_usual_limit)
