"""Keeps the sessions of a running join until they close: a pure state machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import FOREVER, Sessions

from ..rows.sides import Arrival
from .numbering import KeyCodes, Spans

#: Per row: code of its key, time, number in the order of arrival, whether it is a right row.
_Index = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
#: Bytes of a row in the index.
_INDEX_BYTES = 25


@dataclass
class _Part:
    """Consecutive rows of one side, with flags for rows that still wait."""

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
        return sum(part.rows.base.nbytes + part.count * self._extra_bytes for part in self._parts)

    def add(self, arrival: Arrival) -> None:
        """Add rows, whose numbers ascend and are above all earlier ones.

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


class OpenSessions:
    """Keeps rows of both sides until the session of each has closed.

    Parameters
    ----------
    sessions : Sessions
    extra_bytes : mapping of side to int
        Bytes of a row beyond its base row.

    Attributes
    ----------
    following : int
        Number of the next session that closes.
    """

    def __init__(self, sessions: Sessions, extra_bytes: Mapping[str, int]) -> None:
        self._gap = sessions.gap
        self._keys = KeyCodes(sessions)
        self._rows = {side: KeptRows(extra_bytes[side] + _INDEX_BYTES) for side in (LEFT, RIGHT)}
        none = np.zeros(0, np.int64)
        self._index: _Index = (none, none, none, np.zeros(0, bool))
        self._new: list[_Index] = []
        self._arrived = 0
        #: Time up to which no session closes.
        self._quiet = FOREVER
        self.following = 0

    def __len__(self) -> int:
        return sum(len(index[0]) for index in (self._index, *self._new))

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory."""
        return sum(rows.nbytes for rows in self._rows.values())

    def add(self, arrival: Arrival) -> Arrival:
        """Add rows; return the rows without a key, which belong to no session."""
        known, codes = self._keys.encode(arrival.side, arrival.rows)
        alone = arrival.pick(np.flatnonzero(~known))
        rows = arrival if known.all() else arrival.pick(np.flatnonzero(known))
        if len(codes):
            numbers = np.arange(self._arrived, self._arrived + len(codes))
            self._arrived += len(codes)
            times = rows.rows.time
            self._rows[rows.side].add(rows.numbered(numbers))
            is_right = np.full(len(codes), rows.side == RIGHT)
            self._new.append((codes, times, numbers, is_right))
            self._quiet = min(self._quiet, int(times.min()) + self._gap)
        return alone

    def close(self, clock: int) -> list[Arrival]:
        """Take the rows of all sessions that no later row can join, left before right.

        Each row's time becomes the number of its session; the rows ascend by it.

        Parameters
        ----------
        clock : int
            The time below which no later row of either side comes.
        """
        if not len(self) or (clock <= self._quiet and clock != FOREVER):
            return []
        codes, times, numbers, is_right = self._sort()
        spans = Spans.find(codes, times, self._gap)
        closed = spans.closed(clock, self._gap)
        still = spans.last[~closed]
        self._quiet = int(still.min()) + self._gap if len(still) else FOREVER
        leaving = np.repeat(closed, spans.sizes)
        sessions = spans.numbers(closed, numbers, self.following)
        self.following += int(closed.sum())
        stays = ~leaving
        self._index = (codes[stays], times[stays], numbers[stays], is_right[stays])
        self._keys.keep(codes[stays])
        left, right = ~is_right[leaving], is_right[leaving]
        return [
            self._leaving(side, sessions[of_side], numbers[leaving][of_side])
            for side, of_side in ((LEFT, left), (RIGHT, right))
            if of_side.any()
        ]

    def _sort(self) -> _Index:
        """Sort and return the index of all rows by key, time and arrival."""
        if self._new:
            columns = zip(self._index, *self._new, strict=True)
            codes, times, numbers, is_right = map(np.concatenate, columns)
            order = np.lexsort((numbers, times, codes))
            self._index = (codes[order], times[order], numbers[order], is_right[order])
            self._new = []
        return self._index

    def _leaving(self, side: str, sessions: np.ndarray, numbers: np.ndarray) -> Arrival:
        order = np.argsort(sessions, kind="stable")
        arrival = self._rows[side].take(numbers[order])
        return replace(arrival, rows=replace(arrival.rows, time=sessions[order]))
