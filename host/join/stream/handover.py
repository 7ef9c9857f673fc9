"""Hands items to a join's callers: each exactly once, even if the taking call is interrupted.

A call claims all items, makes its answer of them, and settles the claim by one assignment just
before it returns: the interpreter raises no exception of another thread or of a signal in between.
Items claimed by an interrupted call go to the next one. A caller takes no lock here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
A = TypeVar("A")

#: Threads that have taken items, above which ended threads are forgotten.
_MANY = 64


@dataclass(frozen=True, eq=False)
class Item(Generic[T]):
    """One item, with its numbers of rows and bytes.

    Items compare by identity: a comparison in Python could be interrupted while items are moved.
    """

    value: T
    rows: int
    nbytes: int


@dataclass(frozen=True)
class Amount:
    """Numbers of rows and bytes."""

    rows: int = 0
    nbytes: int = 0

    def plus(self, parts: Iterable[Item | Amount]) -> Amount:
        """Return the sum with other amounts."""
        rows, nbytes = self.rows, self.nbytes
        for part in parts:
            rows += part.rows
            nbytes += part.nbytes
        return Amount(rows, nbytes)


@dataclass(frozen=True)
class _Share(Generic[T]):
    """The items that a thread has claimed, and the amount that it took before."""

    claimed: deque[Item[T]] = field(default_factory=deque)
    before: Amount = Amount()


class _Claim(Generic[T]):
    """A thread's share, replaced by one assignment."""

    def __init__(self) -> None:
        self.share: _Share[T] = _Share()


class Handover(Generic[T]):
    """Items that wait to be taken, in order."""

    def __init__(self) -> None:
        self._waiting: deque[Item[T]] = deque()
        self._returned: deque[Item[T]] = deque()
        self._claims: dict[threading.Thread, _Claim[T]] = {}
        self._put = Amount()
        self._forgotten = Amount()
        self._guard = threading.Lock()  # among the join's own threads

    @property
    def left(self) -> Amount:
        """Amount of the items that have not been taken."""
        polled = self._forgotten.plus([c.share.before for c in list(self._claims.values())])
        return Amount(self._put.rows - polled.rows, self._put.nbytes - polled.nbytes)

    def put(self, value: T, rows: int, nbytes: int) -> None:
        """Add an item; called by the join's own threads."""
        item = Item(value, rows, nbytes)
        with self._guard:
            self._put = self._put.plus([item])
            self._waiting.append(item)
            if len(self._claims) > _MANY:
                self._forget()

    def take(self, answer: Callable[[Sequence[T]], A]) -> A:
        """Take all items; return the answer for their values.

        Call it in a ``return`` statement, in a method that is itself called in one.
        """
        claim = self._claims.setdefault(threading.current_thread(), _Claim())
        claimed = claim.share.claimed
        try:
            for thread, other in list(self._claims.items()):
                if other.share.claimed and not thread.is_alive():
                    _move(other.share.claimed, claimed)
            _move(self._returned, claimed)
            _move(self._waiting, claimed)
            items = list(claimed)
            result = answer([item.value for item in items])
            settled = _Share(before=claim.share.before.plus(items))
            claim.share = settled
            return result
        except BaseException:
            _move(claimed, self._returned)
            raise

    def _forget(self) -> None:
        """Forget ended threads without a claim."""
        for thread, claim in list(self._claims.items()):
            if not thread.is_alive() and not claim.share.claimed:
                self._forgotten = self._forgotten.plus([claim.share.before])
                del self._claims[thread]


def _move(source: deque[Item[T]], to: deque[Item[T]]) -> None:
    """Move all items by one built-in call, which cannot be interrupted."""
    with suppress(IndexError):  # ends when the source is empty
        to.extend(iter(source.popleft, None))
