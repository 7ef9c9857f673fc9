"""Window state of joins that probe each row of one side once, when its window has closed.

For semi and anti joins, and joins that fold the matches of each row: the matches of a row are known
only when no later row of the other side can meet it. The other side is one run in order of time and
arrival, so that positions in it tell which row came first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from penstock.expr.columns import Vector
from penstock.plan.forms import JoinForm
from penstock.plan.plan import fold_name
from penstock.plan.query import JoinQuery, TimeWindow, other
from penstock.plan.ranges import place
from penstock.plan.window import FOREVER

from ..keys.prepare import check, window_keys
from ..rows.sides import Arrival
from .engine import RowsEngine, WindowEngine
from .probe import Probe, Watermarks, WindowStep, make_probe, time_probe
from .run import WindowRun
from .waiting import WaitingRows


class FormKeys:
    """Keeps the keys of several forms side by side in one run, and makes a probe per form.

    Parameters
    ----------
    forms : mapping of str to JoinForm
        One form by the side of its window; or several by :func:`.fold_name`, from fold 0 on.
    """

    def __init__(self, forms: Mapping[str, JoinForm]) -> None:
        self.forms = forms
        self._counts: list[int] = []

    def keys(self, new: Arrival) -> list[Vector]:
        """Compute the window keys of all forms."""
        by_form = [window_keys(f, new.rows.columns, len(new.rows)) for f in self.forms.values()]
        self._counts = [len(keys) for keys in by_form]
        return [v for keys in by_form for v in keys]

    def probes(self, probes: Sequence[Probe]) -> list[Probe]:
        """Return each probe once per form, with the keys of that form."""
        if fold_name(0) not in self.forms:
            return list(probes)
        ends = np.cumsum(self._counts)
        return [
            replace(
                probe,
                window=replace(probe.window, keys=probe.window.keys[end - count : end]),
                fold=fold,
            )
            for probe in probes
            for fold, (end, count) in enumerate(zip(ends, self._counts, strict=True))
        ]


class TimeProbing(WindowEngine):
    """Lets rows of a side wait until no later row of the other side can meet them.

    Parameters
    ----------
    side : str
        Side to probe.
    forms : mapping of str to JoinForm
        As for :class:`FormKeys`.
    """

    def __init__(self, side: str, window: TimeWindow, forms: Mapping[str, JoinForm]) -> None:
        super().__init__(forms)
        self.side = side
        self.window = window
        self._form_keys = FormKeys(forms)
        self._open, self._waiting = WaitingRows(), WaitingRows()
        self._run: WindowRun | None = None

    def runs(self) -> list[WindowRun]:
        return [] if self._run is None else [self._run]

    @property
    def rows(self) -> int:
        return super().rows + self._waiting.rows

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._open.nbytes + self._waiting.nbytes

    def step(self, new: Sequence[Arrival], watermarks: Watermarks) -> WindowStep:
        arrivals = [arrival.in_time_order() for arrival in new if len(arrival.rows)]
        for arrival in arrivals:  # may fail, so before any change
            for form in self.forms.values():
                is_window = form.window == arrival.side
                check(form, arrival.rows.columns, len(arrival.rows), window=is_window)
        for arrival in arrivals:
            (self._open if arrival.side == self.side else self._waiting).add(arrival)
        watermark = watermarks[other(self.side)]
        for arrival in self._waiting.take(watermark):
            self._extend(arrival)
        probing = self._open.take(self.window.closed_below(self.side, watermark))
        probes = []
        for arrival in probing:
            for run in self.runs():
                probes += time_probe(self.window, arrival, run)
        self._expire(watermarks[self.side])
        return WindowStep(tuple(self._form_keys.probes(probes)), tuple(arrivals), tuple(probing))

    def _extend(self, arrival: Arrival) -> None:
        """Add rows of the other side to the run; no later row will go before them."""
        keys = self._form_keys.keys(arrival)
        if self._run is None:
            self._run = WindowRun(arrival.rows.time, keys, arrival.base, arrival.ids)
        else:
            self._run.append(arrival.rows.time, keys, arrival.base, arrival.ids)

    def _expire(self, watermark: int) -> None:
        """Drop rows that no waiting or later row of the probed side can meet."""
        if self._run is None:
            return
        closed = self.window.closed_below(other(self.side), min(watermark, self._open.oldest))
        # The run is kept even if it is empty, since positions of later rows continue its count.
        self._run.drop(place(self._run.times, closed))


class RowsProbing(RowsEngine):
    """Lets rows of a side wait until they have left their own window.

    Parameters
    ----------
    side : str
        Side to probe.
    query, forms, number
        As for :class:`RowsEngine`, with forms as for :class:`FormKeys`.
    """

    def __init__(
        self,
        side: str,
        query: JoinQuery,
        forms: Mapping[str, JoinForm],
        number: Callable[[int], np.ndarray],
    ) -> None:
        super().__init__(query, forms, number)
        self.side = side
        self._form_keys = FormKeys(forms)
        self._open: list[Arrival] = []
        self._arrived = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(arrival.base.nbytes for arrival in self._open)

    def step(self, new: Sequence[Arrival], watermarks: Watermarks) -> WindowStep:
        side, window = self.side, other(self.side)
        entered: list[Arrival] = []
        for arrivals in self._turns(new):
            before, ready = self._enter(arrivals, watermarks, kept=(window,))
            entered += ready.values()
            if side in ready:
                self._open.append(ready[side])
                self._arrived = np.concatenate([self._arrived, before[side]])
        run = self.by_side.get(window)
        total = 0 if run is None else run.first + len(run)
        # A row was met by all rows that came between it and the last row of its own window.
        is_over = min(watermarks.values()) == FOREVER
        count = self.window.closed(side, len(self._arrived), is_over=is_over)
        size = self.window.size(side)
        ends = np.append(self._arrived[size:], np.full(size, total))
        start, _ = self.window.ranges(window, self._arrived[:count])
        probing = self._take_oldest(count)
        probes = []
        for arrival in probing:
            if run is not None:
                probes += make_probe(arrival, run, start, ends[:count])
        if run is not None:
            needed = int(self._arrived[0]) if len(self._arrived) else total
            run.drop(needed - self.window.size(window) - run.first)
        return WindowStep(tuple(self._form_keys.probes(probes)), tuple(entered), tuple(probing))

    def _keys(self, new: Arrival) -> list[Vector]:
        return self._form_keys.keys(new)

    def _take_oldest(self, count: int) -> list[Arrival]:
        """Take the oldest ``count`` rows."""
        if not count:
            return []
        rows, every = Arrival.concat(self._open), np.arange(len(self._arrived))
        self._open = [] if count == len(every) else [rows.pick(every[count:])]
        self._arrived = self._arrived[count:]
        return [rows.pick(every[:count])]
