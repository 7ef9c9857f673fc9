"""Arrived rows that wait: for a time, or for a batch."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT
from penstock.plan.ranges import place
from penstock.plan.window import FOREVER

from ..rows.batch_bytes import byte_counter
from ..rows.sides import Arrival

_NO_TIMES = np.zeros(0, np.int64)
#: (oldest waiting time, number of the arrival, arrival, its first waiting row, bytes)
_Entry = tuple[int, int, Arrival, int, int]


class WaitingRows:
    """Arrivals that wait until a time has passed; taking some does not look at the others.

    Attributes
    ----------
    rows : int
        Number of rows that wait.
    nbytes : int
        Bytes of their base rows.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []  # a heap
        self._numbers = itertools.count()
        self.rows = self.nbytes = 0

    @property
    def oldest(self) -> int:
        """Least time of a row that waits."""
        return self._entries[0][0] if self._entries else FOREVER

    @property
    def times(self) -> np.ndarray:
        """Times of the rows, if they came in order of time."""
        entries = sorted(self._entries, key=lambda entry: entry[1])
        times = [arrival.rows.time[start:] for _, _, arrival, start, _ in entries]
        return np.concatenate([_NO_TIMES, *times])

    def add(self, arrival: Arrival) -> None:
        """Add rows that have to wait."""
        if len(arrival.rows):
            self.rows += len(arrival.rows)
            self._put(next(self._numbers), arrival.in_time_order(), 0)

    def take(self, below: int) -> list[Arrival]:
        """Take the rows before a time as at most one arrival, in order of time, then arrival."""
        due = []
        while self.oldest < below:
            _, number, arrival, start, nbytes = heapq.heappop(self._entries)
            self.nbytes -= nbytes
            end, count = place(arrival.rows.time, below), len(arrival.rows)
            self.rows -= end - start
            is_whole = not start and end == count
            due.append((number, arrival if is_whole else arrival.pick(slice(start, end))))
            if count > end > count // 2:  # waiting rows are copied once half have left
                self._put(number, arrival.pick(slice(end, None)), 0)
            elif count > end:
                self._put(number, arrival, end)
        due.sort(key=lambda one: one[0])
        return [Arrival.concat([one for _, one in due]).in_time_order()] if due else []

    def _put(self, number: int, arrival: Arrival, start: int) -> None:
        nbytes = arrival.base.nbytes
        self.nbytes += nbytes
        entry = int(arrival.rows.time[start]), number, arrival, start, nbytes
        heapq.heappush(self._entries, entry)


class Pending:
    """Arrivals of both sides, the oldest first.

    Parameters
    ----------
    extra_bytes : mapping of side to int
        Bytes of a tuple in its window beyond its row. Waiting tuples count as if they were in the
        window, so that the count does not grow when they enter.
    """

    def __init__(self, extra_bytes: Mapping[str, int]) -> None:
        self._extra_bytes = extra_bytes
        self._batch_bytes: dict[str, Callable[[pa.RecordBatch], int]] = {}
        #: Arrivals with their bytes and least times.
        self._waiting: deque[tuple[Arrival, int, int]] = deque()
        self.nbytes = 0

    def add(self, arrival: Arrival) -> None:
        if len(arrival.rows):
            self._put(self._waiting.append, arrival)

    def take(self, count: int, *, grouped: bool) -> list[Arrival]:
        """Take the oldest ``count`` tuples.

        Parameters
        ----------
        grouped : bool
            Whether tuples of one side may be joined, left before right; otherwise the order
            between the sides is kept.
        """
        batch: list[Arrival] = []
        while count and self._waiting:
            first, nbytes, _ = self._waiting.popleft()
            self.nbytes -= nbytes
            if len(first.rows) > count:
                everything = np.arange(len(first.rows))
                self._put(self._waiting.appendleft, first.pick(everything[count:]))
                first = first.pick(everything[:count])
            count -= len(first.rows)
            batch.append(first)
        if not grouped:
            return batch
        sides = ([a for a in batch if a.side == side] for side in (LEFT, RIGHT))
        return [Arrival.concat(arrivals) for arrivals in sides if arrivals]

    def oldest(self, side: str) -> int:
        """Return the least time among the waiting tuples of a side."""
        times = (oldest for arrival, _, oldest in self._waiting if arrival.side == side)
        return min(times, default=FOREVER)

    def _put(self, put: Callable[[tuple[Arrival, int, int]], None], arrival: Arrival) -> None:
        side = arrival.side
        if side not in self._batch_bytes:
            self._batch_bytes[side] = byte_counter(arrival.base.schema)
        nbytes = self._batch_bytes[side](arrival.base)
        nbytes += len(arrival.rows) * self._extra_bytes[side]
        put((arrival, nbytes, int(arrival.rows.time.min())))
        self.nbytes += nbytes
