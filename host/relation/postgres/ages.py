"""Log of the keys that were read from a table, and when: kept rows are dropped in time."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

import numpy as np

#: Rows are dropped in so many steps per age, since dropping some copies the others.
_STEPS = 8


@dataclass
class _Stretch:
    """Hashes that were read in one stretch of time."""

    since: float
    hashes: list[np.ndarray] = field(default_factory=list)
    count: int = 0


class ReadLog:
    """Hashes of the keys that were read, by the time of their snapshot.

    Where they are more than ``most``, the oldest count as too old early.

    Parameters
    ----------
    max_age_s : float
        After which rows are too old.
    most : int
        Hashes that are remembered.
    """

    def __init__(self, max_age_s: float, most: int) -> None:
        self.max_age_s, self.most = max_age_s, most
        self._stretches: deque[_Stretch] = deque()
        self._count = 0
        self._lock = threading.RLock()

    def note(self, hashes: np.ndarray, at: float) -> None:
        """Remember keys and the time of their rows, in seconds of a clock; times ascend."""
        with self._lock:
            last = self._stretches[-1] if self._stretches else None
            width = self.max_age_s / _STEPS
            if last is None or at >= last.since + width or last.count > self.most // _STEPS:
                last = _Stretch(at)
                self._stretches.append(last)
            last.hashes.append(hashes)
            last.count += len(hashes)
            self._count += len(hashes)

    def is_due(self, now: float) -> bool:
        """Whether some rows are too old, or too many to be remembered."""
        with self._lock:
            if not self._stretches:
                return False
            return self._count > self.most or now - self._stretches[0].since >= self.max_age_s

    def take(self, now: float) -> np.ndarray:
        """The keys whose rows are too old by now, ascending; they are forgotten here."""
        hashes = [np.zeros(0, np.uint64)]
        with self._lock:
            while self.is_due(now):
                stretch = self._stretches.popleft()
                self._count -= stretch.count
                hashes += stretch.hashes
        return np.unique(np.concatenate(hashes))
