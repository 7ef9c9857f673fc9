"""Window state of semi and anti joins: each left row is probed once, when its window has closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from penstock.host.completeness.admission import FOREVER
from penstock.host.completeness.engine import (
    Promises,
    RowsEngine,
    Step,
    TimeEngine,
    make_probe,
)
from penstock.host.ranges import shifted, time_ranges
from penstock.host.sides import Arrival
from penstock.query.plan import LEFT, RIGHT, JoinQuery, TimeWindow
from penstock.rewrite.forms import JoinForm


class TimeExistence(TimeEngine):
    """Left rows wait until no right row can come that they may meet."""

    def __init__(self, window: TimeWindow, forms: Mapping[str, JoinForm]) -> None:
        super().__init__(window, forms)
        self._open: list[Arrival] = []

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(arrival.base.nbytes for arrival in self._open)

    def step(self, new: Sequence[Arrival], promises: Promises) -> Step:
        arrivals = [arrival.in_time_order() for arrival in new if len(arrival.rows)]
        keys = [self._keys(arrival) for arrival in arrivals if arrival.side == RIGHT]
        for arrival in (a for a in arrivals if a.side == RIGHT):
            self._insert(arrival, keys.pop(0))
        self._open += [arrival for arrival in arrivals if arrival.side == LEFT]
        probing = self._closed(promises[RIGHT])
        oldest = min((int(a.rows.time.min()) for a in self._open), default=FOREVER)
        probes = []
        for arrival in probing:
            for run in self.by_side[RIGHT]:
                offsets = self.window.offsets(RIGHT)
                start, end = time_ranges(arrival.rows.time, run.times, *offsets)
                probes += make_probe(arrival, run, start + run.first, end + run.first)
        self._expire(RIGHT, min(promises[LEFT], oldest))
        return Step(tuple(probes), tuple(arrivals), tuple(probing))

    def _closed(self, promise: int) -> list[Arrival]:
        """Take out the rows whose window has closed, in time order."""
        if not self._open:
            return []
        rows = Arrival.concat(self._open)
        _, high = self.window.offsets(RIGHT)
        closed = np.full(len(rows.rows), promise == FOREVER)
        if high is not None:
            closed |= shifted(rows.rows.time, high) < promise
        if not closed.any():
            return []
        self._open = [] if closed.all() else [rows.pick(np.flatnonzero(~closed))]
        return [rows.pick(np.flatnonzero(closed)).in_time_order()]


class RowsExistence(RowsEngine):
    """Left rows wait until they have left their own window."""

    def __init__(
        self, query: JoinQuery, forms: Mapping[str, JoinForm], number: Callable[[int], np.ndarray]
    ) -> None:
        super().__init__(query, forms, number)
        self._open: list[Arrival] = []
        self._arrived = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(arrival.base.nbytes for arrival in self._open)

    def step(self, new: Sequence[Arrival], promises: Promises) -> Step:
        entered: list[Arrival] = []
        for arrivals in self._turns(new):
            before, ready = self._enter(arrivals, promises, kept=(RIGHT,))
            entered += ready.values()
            if LEFT in ready:
                self._open.append(ready[LEFT])
                self._arrived = np.concatenate([self._arrived, before[LEFT]])
        run = self.by_side.get(RIGHT)
        total = 0 if run is None else run.first + len(run)
        # What came after a row until the last of its own window: it was met by all of that.
        count = len(self._arrived)
        if min(promises.values()) != FOREVER:
            count = max(0, count - self.sizes[LEFT])
        ends = np.append(self._arrived[self.sizes[LEFT] :], np.full(self.sizes[LEFT], total))
        start = np.maximum(self._arrived[:count] - self.sizes[RIGHT], 0)
        probing = self._taken(count)
        probes = []
        for arrival in probing:
            if run is not None:
                probes += make_probe(arrival, run, start, ends[:count])
        if run is not None:
            needed = int(self._arrived[0]) if len(self._arrived) else total
            run.drop(needed - self.sizes[RIGHT] - run.first)
        return Step(tuple(probes), tuple(entered), tuple(probing))

    def _taken(self, count: int) -> list[Arrival]:
        """Take out the oldest rows."""
        if not count:
            return []
        rows, every = Arrival.concat(self._open), np.arange(len(self._arrived))
        self._open = [] if count == len(every) else [rows.pick(every[count:])]
        self._arrived = self._arrived[count:]
        return [rows.pick(every[:count])]
