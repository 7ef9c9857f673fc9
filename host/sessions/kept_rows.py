"""Rows of one side that wait, and leave one by one in another order than they came in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..rows.sides import Arrival


@dataclass
class _Part:
    """Rows that came one after the other, and which of them still wait."""

    rows: Arrival
    waiting: np.ndarray

    @property
    def count(self) -> int:
        return len(self.waiting)

    def compact(self) -> _Part:
        """Return the part without rows that have left, if they are at least half."""
        left = int(self.waiting.sum())
        if 2 * left > self.count:
            return self
        return _Part(self.rows.pick(np.flatnonzero(self.waiting)), np.ones(left, bool))


class KeptRows:
    """An append log of one side's rows.

    Parameters
    ----------
    extra_bytes : int
        Bytes of a row beyond its base row.
    """

    def __init__(self, extra_bytes: int) -> None:
        self._extra_bytes = extra_bytes
        self._parts: list[_Part] = []

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory."""
        return sum(own.rows.base.nbytes + own.count * self._extra_bytes for own in self._parts)

    def add(self, arrival: Arrival) -> None:
        """Add rows, whose numbers ascend and are above all before them.

        Parts grow by doubling, so that their number stays small.
        """
        part = _Part(arrival, np.ones(len(arrival.ids), bool))
        while self._parts and self._parts[-1].count <= 2 * part.count:
            before = self._parts.pop()
            waiting = np.concatenate([before.waiting, part.waiting])
            part = _Part(Arrival.concat([before.rows, part.rows]), waiting)
        self._parts.append(part)

    def take(self, numbers: np.ndarray) -> Arrival:
        """Take the rows with these numbers, at least one, in this order."""
        ascending = np.sort(numbers)
        picked, kept = [], []
        for part in self._parts:
            ids = part.rows.ids
            low, high = np.searchsorted(ascending, [ids[0], ids[-1] + 1])
            if low < high:
                places = np.searchsorted(ids, ascending[low:high])
                picked.append(part.rows.pick(places))
                part.waiting[places] = False
                part = part.compact()
            if part.count:
                kept.append(part)
        self._parts = kept
        rows = Arrival.concat(picked)
        return rows.pick(np.searchsorted(rows.ids, numbers))
