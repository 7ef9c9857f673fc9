"""Decides which rows of a source are on time: a pure state machine.

A signal ``t`` promises that no later row has a time below ``t``. A source signals explicitly, and
implicitly by its disorder: after a row of time ``x``, none below ``x - disorder`` may come. Each
row is judged at its place in its source, so the result does not depend on how the source is cut
into batches.
"""

from __future__ import annotations

import numpy as np

from penstock.plan.ranges import shifted
from penstock.plan.window import FOREVER, NEVER


class Admission:
    """Watermark of one source.

    Parameters
    ----------
    disorder : int
        How far below the largest time before it a row may lie, in the window's unit.
    """

    def __init__(self, disorder: int) -> None:
        self.disorder = disorder
        self.watermark = NEVER
        self.arrived = 0
        self.late = 0

    def copy(self) -> Admission:
        """Return a copy, so that changes can be undone."""
        other = Admission(self.disorder)
        other.watermark, other.arrived, other.late = self.watermark, self.arrived, self.late
        return other

    def admit(self, times: np.ndarray) -> np.ndarray:
        """Judge the next rows of the source, in order.

        Parameters
        ----------
        times : ndarray of int64, shape (n,)

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the row is on time.
        """
        self.arrived += len(times)
        if not len(times):
            return np.zeros(0, dtype=bool)
        if self.watermark == FOREVER:
            self.late += len(times)
            return np.zeros(len(times), dtype=bool)
        if times[0] >= self.watermark and np.all(times[1:] >= times[:-1]):
            self.watermark = max(self.watermark, int(times[-1]) - self.disorder)
            return np.ones(len(times), dtype=bool)
        implied = shifted(np.maximum.accumulate(times), -self.disorder)
        watermarks = np.empty(len(times), dtype=np.int64)
        watermarks[0] = self.watermark
        np.maximum(implied[:-1], self.watermark, out=watermarks[1:])
        on_time = times >= watermarks
        self.watermark = max(self.watermark, int(implied[-1]))
        self.late += int(len(times) - on_time.sum())
        return on_time

    def signal(self, time: int) -> None:
        """Promise that no later row has a time below ``time``; an older signal changes nothing."""
        self.watermark = max(self.watermark, time)
