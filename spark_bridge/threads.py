"""Calls in threads of their own, which a caller can stop to wait for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_thread(name: str, call: Callable[[], T], kind: Callable[..., Thread] = Thread) -> Future[T]:
    """Begin a call in a thread that does not keep the process alive; return its outcome to come.

    Parameters
    ----------
    name : str
        Of the thread.
    call : callable
    kind : callable
        Makes the thread.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    kind(target=run, name=name, daemon=True).start()
    return outcome
