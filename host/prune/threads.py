"""Work on many items in several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


def each(work: Callable[[_T], None], items: Iterable[_T], threads: int) -> None:
    """Do some work for each item, in several threads if there are."""
    if threads == 1:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(threads, "penstock-order") as pool:
        for _ in pool.map(work, items):
            pass
