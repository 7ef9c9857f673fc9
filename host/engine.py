"""Window state of a running join: which rows meet which, whatever the batch cut.

Exactly-once comes from direction and order of insertion: a new row probes the other side's runs and
only then becomes part of its own side's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector
from penstock.host.admission import FOREVER
from penstock.host.device.base import Device
from penstock.host.prepare import check
from penstock.host.probe import Prober
from penstock.host.ranges import arrival_order, rows_ranges, shifted, time_ranges
from penstock.host.sides import Arrival
from penstock.host.stats import Stats
from penstock.host.window_run import WindowRun
from penstock.query.plan import LEFT, RIGHT, JoinQuery, RowsWindow, TimeWindow, other
from penstock.rewrite.forms import join_form

#: Runs of one side before they are merged into one.
MAX_RUNS = 8

#: Per side, the time below which no later row comes.
Promises = Mapping[str, int]


@dataclass(frozen=True)
class Match:
    """Pairs between tuples of one side (``stream_rows[i]``) and of the other (``window_rows``).

    ``i`` and ``window_rows`` have one entry per pair.
    """

    stream: str
    stream_rows: pa.RecordBatch
    window_rows: pa.RecordBatch
    i: np.ndarray


class Engine(ABC):
    """Takes arrivals and promises, gives matches."""

    def __init__(self, probers: Mapping[str, Prober]) -> None:
        self.probers = probers

    @abstractmethod
    def step(self, new: Arrival | None, promises: Promises) -> list[Match]:
        """Take tuples of one side, or only promises; give what now matches."""

    @abstractmethod
    def runs(self) -> list[WindowRun]:
        """Every resident run."""

    def close(self) -> None:
        """Free everything on the device."""
        for run in self.runs():
            run.unload()
        for prober in self.probers.values():
            prober.close()

    def _probe(
        self, new: Arrival, run: WindowRun, ranges: tuple[np.ndarray, np.ndarray]
    ) -> list[Match]:
        pairs = self.probers[other(new.side)].probe(run, new.rows.columns, *ranges)
        return [Match(new.side, new.base, run.rows.take(j), i) for i, j in pairs if len(i)]

    def _keys(self, new: Arrival) -> list[Vector]:
        return self.probers[new.side].keys(new.rows.columns, len(new.rows))


class TimeEngine(Engine):
    """Runs sorted by time: in-order rows extend a run, stragglers open one of their own."""

    def __init__(self, window: TimeWindow, probers: Mapping[str, Prober]) -> None:
        super().__init__(probers)
        self.window = window
        self.by_side: dict[str, list[WindowRun]] = {LEFT: [], RIGHT: []}

    def runs(self) -> list[WindowRun]:
        return self.by_side[LEFT] + self.by_side[RIGHT]

    def step(self, new: Arrival | None, promises: Promises) -> list[Match]:
        found: list[Match] = []
        if new is not None and len(new.rows):
            new = new.in_time_order()
            opposite = other(new.side)
            keys = self._keys(new)  # may fail, so before anything has changed
            for run in self.by_side[opposite]:
                offsets = self.window.offsets(opposite)
                found += self._probe(new, run, time_ranges(new.rows.time, run.times, *offsets))
            self._insert(new, keys)
        for side in (LEFT, RIGHT):
            self._expire(side, promises[other(side)])
        return found

    def _insert(self, new: Arrival, keys: Sequence[Vector]) -> None:
        runs = self.by_side[new.side]
        for run in runs:
            if run.times[-1] <= new.rows.time[0]:
                run.append(new.rows.time, keys, new.base)
                return
        runs.append(WindowRun(new.rows.time, keys, new.base))
        if len(runs) > MAX_RUNS:
            self.by_side[new.side] = [WindowRun.merged(runs)]

    def _expire(self, side: str, promise: int) -> None:
        """Drop what no later row of the other side, none of it before ``promise``, can meet."""
        low, _ = self.window.offsets(side)
        if low is None:
            return
        horizon = FOREVER if promise == FOREVER else int(shifted(np.array([promise]), low)[0])
        kept = []
        for run in self.by_side[side]:
            gone = int(np.searchsorted(run.times, horizon, side="left"))
            if gone == len(run):
                run.unload()
            else:
                run.drop(gone)
                kept.append(run)
        self.by_side[side] = kept


class RowsEngine(Engine):
    """One run per side in order of arrival.

    Where both sides have a time, the order is (time, left first, row), and rows wait until the
    promises of both sides have passed them; otherwise it is the order of the calls.
    """

    def __init__(self, query: JoinQuery, probers: Mapping[str, Prober]) -> None:
        super().__init__(probers)
        assert isinstance(query.window, RowsWindow)
        self.sizes = {LEFT: query.window.left, RIGHT: query.window.right}
        self.timed = query.left.time is not None and query.right.time is not None
        self.by_side: dict[str, WindowRun] = {}
        self.waiting: dict[str, list[Arrival]] = {LEFT: [], RIGHT: []}

    def runs(self) -> list[WindowRun]:
        return list(self.by_side.values())

    def step(self, new: Arrival | None, promises: Promises) -> list[Match]:
        if new is not None and len(new.rows):
            for window, prober in self.probers.items():
                is_window = window == new.side
                check(prober.form, new.rows.columns, len(new.rows), window=is_window)
            self.waiting[new.side].append(new)
        horizon = min(promises.values()) if self.timed else FOREVER
        ready = {side: self._release(side, horizon) for side in (LEFT, RIGHT)}
        before = self._arrived_before(ready)
        for side, arrival in ready.items():
            if arrival is not None and side in self.by_side:
                self.by_side[side].append(arrival.rows.time, self._keys(arrival), arrival.base)
            elif arrival is not None:
                keys = self._keys(arrival)
                self.by_side[side] = WindowRun(arrival.rows.time, keys, arrival.base)
        found: list[Match] = []
        for side, arrival in ready.items():
            run = self.by_side.get(other(side))
            if arrival is not None and run is not None:
                ranges = rows_ranges(before[side], self.sizes[other(side)])
                found += self._probe(arrival, run, ranges)
        for side, run in self.by_side.items():
            run.drop(len(run) - self.sizes[side])
        return found

    def _release(self, side: str, horizon: int) -> Arrival | None:
        """Waiting tuples before the horizon, in time order; the others stay."""
        if not self.waiting[side]:
            return None
        arrival = Arrival.concat(self.waiting[side])
        if not self.timed:
            self.waiting[side] = []
            return arrival
        due = np.ones(len(arrival.rows), dtype=bool)
        if horizon != FOREVER:
            due = arrival.rows.time < horizon
        self.waiting[side] = [] if due.all() else [arrival.pick(np.flatnonzero(~due))]
        if not due.any():
            return None
        return arrival.pick(np.flatnonzero(due)).in_time_order()

    def _arrived_before(self, ready: Mapping[str, Arrival | None]) -> dict[str, np.ndarray]:
        """How many tuples of the other side's run precede each released tuple."""
        times = {
            side: np.zeros(0, np.int64) if arrival is None else arrival.rows.time
            for side, arrival in ready.items()
        }
        resident = {s: len(self.by_side[s]) if s in self.by_side else 0 for s in (LEFT, RIGHT)}
        if self.timed:
            before_left, before_right = arrival_order(times[LEFT], times[RIGHT])
        else:  # only one side is new
            before_left, before_right = (np.zeros(len(times[s]), np.int64) for s in (LEFT, RIGHT))
        return {LEFT: before_left + resident[RIGHT], RIGHT: before_right + resident[LEFT]}


def open_engine(query: JoinQuery, device: Device, stats: Stats, *, band: bool) -> Engine:
    """The engine for a query's window."""
    probers = {
        window: Prober(
            join_form(query.predicate, window, band=band),
            device,
            stats,
            names=query.names,
            growing=True,
        )
        for window in (LEFT, RIGHT)
    }
    if isinstance(query.window, TimeWindow):
        return TimeEngine(query.window, probers)
    return RowsEngine(query, probers)
