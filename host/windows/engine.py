"""Window state of a running join: which rows meet, for any batch cut.

Nothing is evaluated here: a step gives the probes to be made, each with a snapshot of the run that
it reads. The clock of the window (:mod:`penstock.plan.window`) says which rows meet, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from penstock.expr.columns import Vector
from penstock.plan.plan import JoinPlan, fold_name
from penstock.plan.query import LEFT, RIGHT, RowsWindow, other
from penstock.plan.window import FOREVER

from ..keys.prepare import window_keys
from ..rows.sides import Arrival
from .places import ascending_places
from .probe import Probe, Watermarks, WindowStep, make_probe
from .run import WindowRun
from .waiting import WaitingRows

#: Most runs of one side before the shortest are merged.
MAX_RUNS = 8


class WindowEngine:
    """Takes arrivals and watermarks, and gives probes: each pair of rows meets exactly once.

    New rows enter their side's window and probe the other side's. For semi and anti joins, and for
    folds of each row's matches, the rows of one side enter no window: each waits until no later row
    can meet it, and probes once. The other side is then one run in order of time and arrival, so
    that positions in it tell which row came first.

    A time window may have several runs per side: rows in order extend one, others open a new one.
    Rows of a ROWS window get their arrival numbers when their order is known, and from then on the
    number is their time. The order is (time, left first, row) if both sides have a time, and rows
    wait until the watermarks of both sides have passed them; otherwise it is that of the calls.

    Parameters
    ----------
    number : callable
        Gives the next arrival numbers.

    Raises
    ------
    QueryError
        The predicate, or a folded value, has no form.
    """

    def __init__(self, plan: JoinPlan, number: Callable[[int], np.ndarray]) -> None:
        self.forms = {key: one.form for key, one in plan.evaluations.items()}
        self.window = plan.query.window
        self.number = number
        #: The side whose rows probe once; None if rows of both sides probe as they come.
        self.probing = plan.probing
        self.by_side: dict[str, list[WindowRun]] = {LEFT: [], RIGHT: []}
        waiting = [] if self.probing is None else [other(self.probing)]
        self._is_counted = isinstance(self.window, RowsWindow)
        if self._is_counted:
            is_timed = all(side.time is not None for side in plan.query.sides)
            waiting = [LEFT, RIGHT] if is_timed else []
        #: Rows that wait until all rows before them have come, of the sides where rows do.
        self._early = {side: WaitingRows() for side in waiting}
        #: Rows that wait until no later row can meet them.
        self._open = WaitingRows()
        #: Place after the window keys of each form, among those of all forms.
        self._key_ends: list[int] = []

    def runs(self) -> list[WindowRun]:
        """Return all runs."""
        return self.by_side[LEFT] + self.by_side[RIGHT]

    @property
    def rows(self) -> int:
        """Number of rows in the windows, and of rows that wait to enter a time window."""
        waiting = 0 if self._is_counted else sum(rows.rows for rows in self._early.values())
        return waiting + sum(len(run) for run in self.runs())

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory of the windows."""
        held = (*self.runs(), *self._early.values(), self._open)
        return sum(one.nbytes for one in held)

    def step(self, new: Sequence[Arrival], watermarks: Watermarks) -> WindowStep:
        """Take tuples, left before right, or only watermarks; return the step."""
        arrivals = [arrival.in_time_order() for arrival in new if len(arrival.rows)]
        entered: list[Arrival] = []
        probing: list[Arrival] = []
        probes: list[Probe] = []
        # Where no side waits one side enters at a time, so that a pair is found by its later row.
        for turn in [arrivals] if self._early or not arrivals else [[one] for one in arrivals]:
            ready = self._ready(turn, watermarks)
            entered += ready
            for arrival in ready:
                self._enter(arrival)
            if self.probing is None:
                probes += [probe for arrival in ready for probe in self._probes(arrival)]
                if self._is_counted:  # in time, rows of the next turn may still meet all
                    self._expire(watermarks)
        if self.probing is not None:
            probing, probes = self._probe_closed(self.probing, watermarks)
        self._expire(watermarks)
        return WindowStep(tuple(probes), tuple(entered), tuple(probing))

    def _ready(self, new: Sequence[Arrival], watermarks: Watermarks) -> list[Arrival]:
        """Return the tuples whose place in the order is final, with arrival numbers."""
        ready = [arrival for arrival in new if arrival.side not in self._early]
        for arrival in new:
            if arrival.side in self._early:
                self._early[arrival.side].add(arrival)
        for side, early in self._early.items():
            below = min(watermarks.values()) if self._is_counted else watermarks[side]
            ready += early.take(below)
        if not self._is_counted or not ready:
            return ready
        times = {LEFT: np.zeros(0, np.int64), RIGHT: np.zeros(0, np.int64)}
        times |= {arrival.side: arrival.rows.time for arrival in ready}
        places = self.window.moments(times)
        numbers = self.number(sum(map(len, places.values())))
        return [_numbered(arrival, numbers[places[arrival.side]]) for arrival in ready]

    def _enter(self, new: Arrival) -> None:
        """Let rows into their side's window, or among the rows that wait to probe."""
        if new.side == self.probing:
            self._open.add(new)
            return
        runs, keys = self.by_side[new.side], self._keys(new)
        for run in runs:
            if not len(run) or run.times[-1] <= new.rows.time[0]:
                run.append(new.rows.time, keys, new.base, new.ids)
                return
        runs.append(WindowRun(new.rows.time, keys, new.base, new.ids))
        if len(runs) > MAX_RUNS:
            _merge_shortest(runs)

    def _keys(self, new: Arrival) -> list[Vector]:
        """Compute the window keys of all forms with this side as the window, side by side."""
        forms = [form for form in self.forms.values() if form.window == new.side]
        by_form = [window_keys(form, new.rows.columns, len(new.rows)) for form in forms]
        self._key_ends = list(accumulate(map(len, by_form), initial=0))
        return [v for keys in by_form for v in keys]

    def _probes(self, new: Arrival) -> list[Probe]:
        """Make the probes of new tuples."""
        side, probes = other(new.side), []
        for run in self.by_side[side]:
            ranges = self.window.ranges(side, new.rows.time, run.times, ascending_places)
            probes += make_probe(new, run, *ranges)
        return probes

    def _probe_closed(self, side: str, watermarks: Watermarks) -> tuple[list[Arrival], list[Probe]]:
        """Take a side's rows that no later row can meet, as at most one arrival; make probes."""
        opposite, times = other(side), np.zeros(0, np.int64)
        if isinstance(self.window, RowsWindow):
            times, is_over = self._open.times, min(watermarks.values()) == FOREVER
            count = self.window.closed(side, len(times), is_over=is_over)
            closed = self._open.take(int(times[count]) if count < len(times) else FOREVER)
        else:
            closed = self._open.take(self.window.closed_below(side, watermarks[opposite]))
            times = closed[0].rows.time if closed else times
        probes: list[Probe] = []
        for arrival in closed:
            for run in self.by_side[opposite]:
                ranges = self.window.met(side, {side: times, opposite: run.times}, ascending_places)
                probes += make_probe(arrival, run, *(ends[: len(arrival.ids)] for ends in ranges))
        if fold_name(0) not in self.forms:
            return closed, probes
        return closed, [
            replace(
                probe, window=replace(probe.window, keys=probe.window.keys[low:high]), fold=fold
            )
            for probe in probes
            for fold, (low, high) in enumerate(pairwise(self._key_ends))
        ]

    def _expire(self, watermarks: Watermarks) -> None:
        """Drop rows that neither a later row nor a row that waits to probe can meet."""
        for side, runs in self.by_side.items():
            following = FOREVER if self._is_counted else watermarks[other(side)]
            first = min(following, self._open.oldest)
            for run in runs:
                run.drop(self.window.expired(side, run.times, first))
            if self.probing is None:  # else positions of later rows continue those of the run
                runs[:] = [run for run in runs if len(run)]


def _numbered(arrival: Arrival, numbers: np.ndarray) -> Arrival:
    """Return the same tuples with these arrival numbers, also as their times."""
    return replace(arrival, ids=numbers, rows=replace(arrival.rows, time=numbers))


def _merge_shortest(runs: list[WindowRun]) -> None:
    """Merge the shortest runs until the next longer run has at least twice as many rows as they.

    So a row is moved a logarithmic number of times, however many batches are out of order.
    """
    runs.sort(key=len, reverse=True)
    first, rows = len(runs) - 1, len(runs[-1])
    while first and len(runs[first - 1]) < 2 * rows:
        first -= 1
        rows += len(runs[first])
    if first < len(runs) - 1:
        runs[first:] = [WindowRun.merged(runs[first:])]
