"""Preserved rows: kept until it is known whether they have a match."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.plan.query import RowsWindow, TimeWindow, other
from penstock.plan.ranges import shifted
from penstock.plan.window import FOREVER

from ..rows.gather import take_batch
from ..rows.growing import Column
from ..rows.row_store import RowStore
from ..rows.sides import Arrival, SideRows
from .probe import Watermarks

_MATCHED, _CLOSING, _GONE = 1, 2, 4


@dataclass(frozen=True)
class ClosedRows:
    """Rows that no later row of the other side can meet.

    Parameters
    ----------
    ids : ndarray of int64
        Arrival numbers.
    moments : ndarray of int64
        When each row closed: the latest time that it could have met; 0 for ROWS, where rows close
        in order of arrival.
    """

    ids: np.ndarray
    moments: np.ndarray


class Preserved:
    """The preserved rows of one side, by arrival number.

    A row closes when no later row of the other side can meet it.

    Parameters
    ----------
    window : TimeWindow or RowsWindow
    """

    def __init__(self, side: str, window: TimeWindow | RowsWindow) -> None:
        self.side = side
        self.window = window
        self._ids = Column(np.zeros(0, np.int64))
        self._times = Column(np.zeros(0, np.int64))
        self._state = Column(np.zeros(0, np.uint8))
        self._rows: RowStore | None = None

    def __len__(self) -> int:
        return self._ids.count

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory."""
        return sum(column.nbytes for column in self._parts())

    def add(self, arrival: Arrival) -> None:
        """Add rows that entered the window; their numbers are above all earlier ones."""
        order = np.argsort(arrival.ids)
        self._ids.append(arrival.ids[order])
        self._times.append(arrival.rows.time[order])
        self._state.append(np.zeros(len(order), np.uint8))
        if self._rows is None:
            self._rows = RowStore(arrival.base.schema)
        self._rows.append(take_batch(arrival.base, order))

    def matched(self, ids: np.ndarray) -> None:
        """Note that rows with these arrival numbers are in a pair."""
        self._state.values[np.searchsorted(self._ids.values, ids)] |= _MATCHED

    def closing(self, watermarks: Watermarks) -> ClosedRows:
        """Return the rows that close now, each row once."""
        closed = (self._state.values & _CLOSING) == 0
        moments = np.zeros(len(self), np.int64)
        if isinstance(self.window, TimeWindow):
            opposite = other(self.side)
            _, high = self.window.offsets(opposite)
            # Clipped to int64: moments only order rows that close in one step.
            moments = self._times.values if high is None else shifted(self._times.values, high)
            below = self.window.closed_below(self.side, watermarks[opposite])
            closed &= self._times.values < below
        else:
            is_over = min(watermarks.values()) == FOREVER
            closed[self.window.closed(self.side, len(self), is_over=is_over) :] = False
        self._state.values[closed] |= _CLOSING
        return ClosedRows(self._ids.values[closed], moments[closed])

    def unmatched(self, closed: ClosedRows) -> tuple[Arrival, np.ndarray]:
        """Return the closed rows without a match, and their moments; forget all closed rows."""
        where = np.searchsorted(self._ids.values, closed.ids)
        alone = (self._state.values[where] & _MATCHED) == 0
        assert self._rows is not None  # something closed, so something came
        chosen = where[alone]
        rows = SideRows(np.arange(len(chosen)), self._times.values[chosen], {})
        arrival = Arrival(self.side, rows, self._rows.view().take(chosen), closed.ids[alone])
        self._state.values[where] |= _GONE
        self._forget()
        return arrival, closed.moments[alone]

    def _forget(self) -> None:
        """Drop forgotten rows at the front, once they are at least half."""
        kept = (self._state.values & _GONE) == 0
        count = int(np.argmax(kept)) if kept.any() else len(self)
        if count and 2 * count >= len(self):
            for column in self._parts():
                column.drop(count)

    def _parts(self) -> list[Column | RowStore]:
        rows = [] if self._rows is None else [self._rows]
        return [self._ids, self._times, self._state, *rows]
