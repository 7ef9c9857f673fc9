"""Which rows of a worker lie in files of checkpoints: each is written once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.plan.window import NEVER

from ..output_order import FEED, PLACE

#: Files of earlier checkpoints that a checkpoint names; beyond, all rows are written anew.
MOST_FILES = 64


class SavedRows:
    """What earlier checkpoints of a worker hold of its rows.

    At a cut a worker has all of its rows of a feed up to some place, and none behind it. So the
    rows that no file holds are those behind the last place that was saved of their feed.
    """

    def __init__(self) -> None:
        #: Of the checkpoint that is being made, from 0 on.
        self.number = -1
        self._places: dict[int, int] = {}
        self._found: dict[int, int] = {}
        #: Last time of each side's rows, by number of the checkpoint whose file holds them.
        self._last: dict[int, dict[str, int]] = {}

    def begin(self, first: Mapping[str, int]) -> list[int]:
        """Begin a checkpoint; returns the earlier ones whose files it needs.

        Parameters
        ----------
        first : mapping of str to int
            The first time of each side's rows that are still held, of those that hold any.
        """
        self.number += 1
        self._last = {
            number: last
            for number, last in self._last.items()
            if any(time >= first[side] for side, time in last.items() if side in first)
        }
        if len(self._last) >= MOST_FILES:
            self._last, self._places = {}, {}
        self._last[self.number] = {}
        self._found = dict(self._places)
        return [*self._last][:-1]

    def fresh(
        self, side: str, rows: pa.RecordBatch, times: np.ndarray, is_own: np.ndarray
    ) -> pa.RecordBatch:
        """Return the rows that no earlier file holds, and take note of them.

        Parameters
        ----------
        times : int64 array
            Of the rows.
        is_own : bool array
            Rows that this worker saves.
        """
        feeds, of_feeds = np.unique(rows.column(FEED).to_numpy(), return_inverse=True)
        places = rows.column(PLACE).to_numpy()
        known = np.array([self._places.get(feed, -1) for feed in feeds.tolist()], np.int64)
        found = np.flatnonzero(is_own & (places > known[of_feeds]))
        if not len(found):
            return rows.slice(0, 0)
        for number, feed in enumerate(feeds.tolist()):
            last = int(places[found][of_feeds[found] == number].max(initial=-1))
            self._found[feed] = max(last, self._found.get(feed, -1))
        last_times = self._last[self.number]
        last_times[side] = max(int(times[found].max()), last_times.get(side, NEVER))
        return rows.take(pa.array(found))

    def end(self) -> None:
        """The checkpoint has all rows that are held."""
        self._places = self._found
