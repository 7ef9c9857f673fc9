"""Latency of rows: from the arrival of a pair's later tuple until the pair can be polled."""

from __future__ import annotations

import math
import threading

import numpy as np

#: Upper bounds of the buckets, in seconds: 10 us to 1,000 s, each 10 % above the one before.
BOUNDS = 1e-5 * 1.1 ** np.arange(194)
#: Arrivals to remember; a pair with an older later tuple counts as unknown.
_MOST_ARRIVALS = 1 << 16


class Latency:
    """A histogram of latencies. Times are seconds on the clock of all calls."""

    def __init__(self) -> None:
        self.counts = np.zeros(len(BOUNDS) + 1, np.int64)
        self.total_s = 0.0
        self.unknown = 0
        # The last number of each arrival and its time, the newest at the end of the used part; when
        # the arrays are full, the entries to remember move to their front.
        self._last = np.empty(2 * _MOST_ARRIVALS, np.int64)
        self._times = np.empty(2 * _MOST_ARRIVALS)
        self._used = 0
        self._lock = threading.Lock()

    def arrived(self, ids: np.ndarray, now: float) -> None:
        """Note when tuples of these arrival numbers came."""
        if len(ids):
            with self._lock:
                if self._used == len(self._last):
                    for column in (self._last, self._times):
                        column[:_MOST_ARRIVALS] = column[_MOST_ARRIVALS:]
                    self._used = _MOST_ARRIVALS
                self._last[self._used], self._times[self._used] = ids[-1], now
                self._used += 1

    def left(self, later: np.ndarray, now: float) -> None:
        """Count pairs that can be polled now, by the arrival numbers of their later tuples."""
        if not len(later):
            return
        with self._lock:
            if not self._used:
                self.unknown += len(later)
                return
            first = max(0, self._used - _MOST_ARRIVALS)
            last, times = self._last[first : self._used], self._times[first : self._used]
            known = (later > last[0]) | (len(last) < _MOST_ARRIVALS)
            self.unknown += int(len(later) - known.sum())
            waits = now - times[np.minimum(np.searchsorted(last, later[known]), len(last) - 1)]
            self.total_s += float(waits.sum())
            buckets = np.searchsorted(BOUNDS, waits)
            self.counts += np.bincount(buckets, minlength=len(self.counts))

    def quantile(self, share: float) -> float:
        """The latency in seconds that ``share`` of the rows do not exceed, to 10 %; NaN for none.

        Parameters
        ----------
        share : float
            0 to 1.
        """
        with self._lock:
            upto = np.cumsum(self.counts)
        if not upto[-1]:
            return math.nan
        bucket = int(np.searchsorted(upto, share * upto[-1]))
        return float(BOUNDS[min(bucket, len(BOUNDS) - 1)])
