"""Arrived rows that wait for a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import FOREVER

from ..rows.batch_bytes import byte_counter
from ..rows.sides import Arrival


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
