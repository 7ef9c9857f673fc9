"""Ranks as threads of one process: fast, and each with its own stream all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.host.workers import Workers
from tests.host.workers.kit.hub import place_of

T = TypeVar("T")

#: Seconds that other ranks may take.
PATIENCE_S = 60.0


class _Table:
    """Where ranks lay what they exchange."""

    def __init__(self, size: int) -> None:
        self.said = [b""] * size
        self.barrier = threading.Barrier(size)


class ThreadWorkers(Workers):
    """A rank that is a thread."""

    def __init__(self, table: _Table, rank: int, hosts: int) -> None:
        super().__init__(rank, len(table.said))
        self._table = table
        if hosts > 1:
            self.place = place_of(rank, hosts)

    def exchange(self, mine: bytes) -> list[bytes]:
        table = self._table
        table.said[self.rank] = mine
        table.barrier.wait(PATIENCE_S)
        said = list(table.said)
        table.barrier.wait(PATIENCE_S)
        return said


def together(size: int, do: Callable[[Workers], T], hosts: int = 1) -> list[T | Exception]:
    """Do something in each of several ranks at once; returns results or errors, by rank.

    Parameters
    ----------
    hosts : int
        Among which ranks hold themselves to be spread: a network lies between.
    """
    table = _Table(size)

    def of(rank: int) -> T | Exception:
        try:
            return do(ThreadWorkers(table, rank, hosts))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(of, range(size)))


def all_of(results: Sequence[Any]) -> list[Any]:
    """Return the results of all ranks, or raise the first error."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return list(results)
