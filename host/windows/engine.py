"""Window state of a running join: which rows meet, for any batch cut.

Each pair is found exactly once, since a new row first probes the other side's runs and only then
enters its own side's. Nothing is evaluated here: a step gives the probes to be made, each with a
snapshot of the run that it reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from penstock.expr.columns import Vector
from penstock.plan.forms import JoinForm
from penstock.plan.query import LEFT, RIGHT, JoinQuery, RowsWindow, TimeWindow, other
from penstock.plan.ranges import arrival_order, place

from ..keys.prepare import check, window_keys
from ..rows.sides import Arrival
from .probe import Probe, Watermarks, WindowStep, make_probe, time_probe
from .run import WindowRun
from .waiting import WaitingRows

#: Most runs of one side before the shortest are merged.
MAX_RUNS = 8


class WindowEngine(ABC):
    """Takes arrivals and watermarks, and gives probes.

    Parameters
    ----------
    forms : mapping of str to JoinForm
        By side, the form of the predicate with that side as the window; by :func:`.fold_name`, the
        form of a fold.
    """

    def __init__(self, forms: Mapping[str, JoinForm]) -> None:
        self.forms = forms

    @abstractmethod
    def step(self, new: Sequence[Arrival], watermarks: Watermarks) -> WindowStep:
        """Take tuples, left before right, or only watermarks; return the step.

        Raises
        ------
        DataError
            A prepared key cannot be computed. Nothing has changed then.
        """

    @abstractmethod
    def runs(self) -> list[WindowRun]:
        """Return all runs."""

    @property
    def rows(self) -> int:
        """Number of rows in the windows."""
        return sum(len(run) for run in self.runs())

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory of the windows."""
        return sum(run.nbytes for run in self.runs())

    def _keys(self, new: Arrival) -> list[Vector]:
        return window_keys(self.forms[new.side], new.rows.columns, len(new.rows))


class TimeEngine(WindowEngine):
    """Runs sorted by time: in-order rows extend a run, out-of-order rows open a new one."""

    def __init__(self, window: TimeWindow, forms: Mapping[str, JoinForm]) -> None:
        super().__init__(forms)
        self.window = window
        self.by_side: dict[str, list[WindowRun]] = {LEFT: [], RIGHT: []}

    def runs(self) -> list[WindowRun]:
        return self.by_side[LEFT] + self.by_side[RIGHT]

    def step(self, new: Sequence[Arrival], watermarks: Watermarks) -> WindowStep:
        probes: list[Probe] = []
        arrivals = [arrival.in_time_order() for arrival in new if len(arrival.rows)]
        keys = [self._keys(arrival) for arrival in arrivals]  # may fail, so before any change
        for arrival, side_keys in zip(arrivals, keys, strict=True):
            for run in self.by_side[other(arrival.side)]:
                probes += time_probe(self.window, arrival, run)
            self._insert(arrival, side_keys)
        for side in (LEFT, RIGHT):
            self._expire(side, watermarks[other(side)])
        return WindowStep(tuple(probes), tuple(arrivals))

    def _insert(self, new: Arrival, keys: Sequence[Vector]) -> None:
        runs = self.by_side[new.side]
        for run in runs:
            if run.times[-1] <= new.rows.time[0]:
                run.append(new.rows.time, keys, new.base, new.ids)
                return
        runs.append(WindowRun(new.rows.time, keys, new.base, new.ids))
        if len(runs) > MAX_RUNS:
            _merge_shortest(runs)

    def _expire(self, side: str, watermark: int) -> None:
        """Drop rows that cannot meet rows of the other side from ``watermark`` on."""
        closed = self.window.closed_below(side, watermark)
        kept = []
        for run in self.by_side[side]:
            count = place(run.times, closed)
            if count < len(run):
                run.drop(count)
                kept.append(run)
        self.by_side[side] = kept


def _merge_shortest(runs: list[WindowRun]) -> None:
    """Merge the shortest runs, until the next longer one has at least twice their rows together.

    So a row is moved a logarithmic number of times, however many batches are out of order.
    """
    runs.sort(key=len, reverse=True)
    first, rows = len(runs) - 1, len(runs[-1])
    while first and len(runs[first - 1]) < 2 * rows:
        first -= 1
        rows += len(runs[first])
    if first < len(runs) - 1:
        runs[first:] = [WindowRun.merged(runs[first:])]


class RowsEngine(WindowEngine):
    """One run per side in order of arrival.

    If both sides have a time, the order is (time, left first, row), and rows wait until the
    watermarks of both sides have passed them; otherwise it is the order of the calls.

    Parameters
    ----------
    forms : mapping of side to JoinForm
    number : callable
        Gives the next arrival numbers; rows are numbered when they are released.
    """

    def __init__(
        self, query: JoinQuery, forms: Mapping[str, JoinForm], number: Callable[[int], np.ndarray]
    ) -> None:
        super().__init__(forms)
        assert isinstance(query.window, RowsWindow)
        self.window = query.window
        self.timed = query.left.time is not None and query.right.time is not None
        self.number = number
        self.by_side: dict[str, WindowRun] = {}
        self.waiting = {LEFT: WaitingRows(), RIGHT: WaitingRows()}

    def runs(self) -> list[WindowRun]:
        return list(self.by_side.values())

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(waiting.nbytes for waiting in self.waiting.values())

    def step(self, new: Sequence[Arrival], watermarks: Watermarks) -> WindowStep:
        steps = []
        for arrivals in self._turns(new):
            before, ready = self._enter(arrivals, watermarks)
            probes: list[Probe] = []
            for side, arrival in ready.items():
                run = self.by_side.get(other(side))
                if run is not None:
                    start, end = self.window.ranges(other(side), before[side])
                    probes += make_probe(arrival, run, start, end)
            for side, run in self.by_side.items():
                run.drop(len(run) - self.window.size(side))
            steps.append(WindowStep(tuple(probes), tuple(ready.values())))
        return WindowStep(
            tuple(probe for step in steps for probe in step.probes),
            tuple(arrival for step in steps for arrival in step.entered),
        )

    def _turns(self, new: Sequence[Arrival]) -> list[list[Arrival]]:
        """Group arrivals that may enter together: without a time, the order of calls counts."""
        arrivals = [arrival for arrival in new if len(arrival.rows)]
        for arrival in arrivals:
            for form in self.forms.values():
                is_window = form.window == arrival.side
                check(form, arrival.rows.columns, len(arrival.rows), window=is_window)
        return [arrivals] if self.timed or not arrivals else [[one] for one in arrivals]

    def _enter(
        self,
        arrivals: Sequence[Arrival],
        watermarks: Watermarks,
        kept: Sequence[str] = (LEFT, RIGHT),
    ) -> tuple[dict[str, np.ndarray], dict[str, Arrival]]:
        """Let tuples whose order is known into the windows of the sides ``kept``.

        Returns
        -------
        before : mapping of side to ndarray of int64
            Logical position of the other side's run at which each tuple arrived.
        ready : mapping of side to Arrival
            These tuples, with their arrival numbers.
        """
        released = {arrival.side: arrival for arrival in arrivals}
        if self.timed:
            for arrival in arrivals:
                self.waiting[arrival.side].add(arrival)
            horizon = min(watermarks.values())
            due = {side: waiting.take(horizon) for side, waiting in self.waiting.items()}
            released = {side: arrival for side, batches in due.items() for arrival in batches}
        before, ready = self._arrived_before(released)
        for side, arrival in ready.items():
            if side not in kept:
                continue
            keys = self._keys(arrival)
            if side in self.by_side:
                self.by_side[side].append(arrival.rows.time, keys, arrival.base, arrival.ids)
            else:
                run = WindowRun(arrival.rows.time, keys, arrival.base, arrival.ids)
                self.by_side[side] = run
        return before, ready

    def _arrived_before(
        self, ready: Mapping[str, Arrival]
    ) -> tuple[dict[str, np.ndarray], dict[str, Arrival]]:
        """Return each released tuple's logical position in the other side's run when it arrives.

        Also returns the tuples with their arrival numbers.
        """
        none = np.zeros(0, np.int64)
        left, right = (ready[side].rows.time if side in ready else none for side in (LEFT, RIGHT))
        if self.timed:
            before_left, before_right = arrival_order(left, right)
        else:  # only one side is new
            before_left, before_right = (np.zeros(len(new), np.int64) for new in (left, right))
        earlier = {LEFT: before_left, RIGHT: before_right}
        numbers = self.number(len(left) + len(right))
        before, numbered = {}, {}
        for side, arrival in ready.items():
            run = self.by_side.get(other(side))
            before[side] = earlier[side] + (0 if run is None else run.first + len(run))
            place = np.arange(len(arrival.rows)) + earlier[side]
            numbered[side] = arrival.numbered(numbers[place])
        return before, numbered
