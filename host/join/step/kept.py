"""The rows that a step of a join reads, and shares of its probing rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ...rows.sides import Loaded, SideRows


class Kept(ABC):
    """The rows that a step reads."""

    @abstractmethod
    def old(self, side: str, low: int, high: int) -> Loaded:
        """Return rows of earlier steps with ``low <= time <= high``."""

    def met(self, side: str, low: int, high: int, meeting: Loaded) -> Loaded:
        """Return the rows of :meth:`old`, or fewer: at least all that ``meeting`` can meet."""
        return self.old(side, low, high)

    @abstractmethod
    def new(self, side: str) -> Loaded:
        """Return the rows of this step, including those without a time."""


@dataclass(frozen=True)
class Share:
    """Part ``lane`` of ``lanes`` of the rows that probe."""

    lane: int = 0
    lanes: int = 1

    def cut(self, first: int, last: int) -> slice:
        """Return this share of the places ``[first, last)``."""
        count = max(0, last - first)
        cuts = (count * k // self.lanes for k in (self.lane, self.lane + 1))
        return slice(*(first + cut for cut in cuts))

    def chosen(self, side: str, rows: SideRows) -> slice | np.ndarray:
        """Return this share of a side's rows, which probe a time window."""
        return self.cut(0, len(rows))

    def grouped(self, side: str, rows: SideRows, groups: np.ndarray) -> np.ndarray:
        """Return the indices of this share's rows, where rows are decided with their group.

        Parameters
        ----------
        side : str
        rows : SideRows
        groups : ndarray of uint64, shape (rows,)
            A hash of each row's group.
        """
        return np.flatnonzero(groups % np.uint64(self.lanes) == self.lane)

    def places(self, side: str, rows: SideRows) -> np.ndarray:
        """Return a place for each row, which tells rows of a group apart in every share."""
        return np.arange(len(rows))


#: The share of a single lane.
ALL = Share()
