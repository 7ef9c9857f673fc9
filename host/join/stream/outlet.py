"""Output rows of a join that have not been polled yet.

Each is handed to a caller exactly once, even if the taking call is interrupted.
A call claims all items, makes its answer of them, and settles the claim by one assignment just
before it returns: the interpreter raises no exception of another thread or of a signal in between.
Items claimed by an interrupted call go to the next one. A caller takes no lock here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from penstock.errors import memory_explained

from ...emit.output import RowsByArrival
from ...execute.budget import RESULTS, Budget
from ...metrics import Latency
from ...rows.batch_bytes import byte_counter

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


class Handover(Generic[T]):
    """Items that wait to be taken, in order."""

    def __init__(self) -> None:
        self._waiting: deque[Item[T]] = deque()
        self._returned: deque[Item[T]] = deque()
        self._claims: dict[threading.Thread, _Share[T]] = {}
        self._put = Amount()
        self._forgotten = Amount()
        self._guard = threading.Lock()  # among the join's own threads

    @property
    def left(self) -> Amount:
        """Amount of the items that have not been taken."""
        polled = self._forgotten.plus([claim.before for claim in list(self._claims.values())])
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
        caller = threading.current_thread()
        claim = self._claims.setdefault(caller, _Share())
        claimed = claim.claimed
        try:
            for thread, other in list(self._claims.items()):
                if other.claimed and not thread.is_alive():
                    _move(other.claimed, claimed)
            _move(self._returned, claimed)
            _move(self._waiting, claimed)
            items = list(claimed)
            result = answer([item.value for item in items])
            settled: _Share[T] = _Share(before=claim.before.plus(items))
            self._claims[caller] = settled
            return result
        except BaseException:
            _move(claimed, self._returned)
            raise

    def _forget(self) -> None:
        """Forget ended threads without a claim."""
        for thread, claim in list(self._claims.items()):
            if not thread.is_alive() and not claim.claimed:
                self._forgotten = self._forgotten.plus([claim.before])
                del self._claims[thread]


def _move(source: deque[Item[T]], to: deque[Item[T]]) -> None:
    """Move all items by one built-in call, which cannot be interrupted."""
    with suppress(IndexError):  # ends when the source is empty
        to.extend(iter(source.popleft, None))


class Outlet:
    """Holds output rows until they are polled.

    Parameters
    ----------
    budget : Budget
        Counts their bytes.
    latency : Latency
        Notes when pairs leave.
    schema : pyarrow.Schema
        Schema of the rows.
    """

    def __init__(self, budget: Budget, latency: Latency, schema: pa.Schema) -> None:
        self.budget = budget
        self.latency = latency
        self.schema = schema
        self._bytes = byte_counter(schema)
        self._results: Handover[pa.RecordBatch] = Handover()
        budget.watch(RESULTS, lambda: self._results.left.nbytes)

    @property
    def rows(self) -> int:
        """Number of rows that can be polled."""
        return self._results.left.rows

    def collect(self, rows: RowsByArrival) -> None:
        """Add rows that leave the join."""
        pairs = rows.later[rows.later != rows.earlier]  # others waited for their window
        self.latency.left(pairs, time.monotonic())
        self._results.put(rows.batch, rows.batch.num_rows, self._bytes(rows.batch))
        self.budget.note()

    def take(self, if_none: Callable[[], None]) -> pa.Table:
        """Take all rows, each once; call ``if_none`` first if there are none.

        As for :meth:`Handover.take`.
        """

        def table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
            if not batches:
                if_none()
            with memory_explained():
                return pa.Table.from_batches(batches, self.schema)

        return self._results.take(table)
