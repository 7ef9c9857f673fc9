"""Arrived rows of one side that wait for a time."""

from __future__ import annotations

import heapq
import itertools

from penstock.plan.ranges import place
from penstock.plan.window import FOREVER

from ..rows.sides import Arrival

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
