"""The order in which rows of a stream arrive: as stored, or delayed by a bounded random time.

A row arrives at the largest time up to it in the file, plus a random part of the bound. So the
file's own disorder stays, and at most the bound is added to it. The random part depends on the seed
and the row's number alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.host.keys.splitmix import SEED, mixed

#: Stands for the time of a row without one, which arrives with the row before it.
NO_TIME = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class ArrivalPoint:
    """A place in the order of arrival: everything from this row of this moment on."""

    moment: int
    row: int


@dataclass(frozen=True)
class ArrivalPiece:
    """Consecutive arrivals, and the stretch of stored rows in which to find them.

    Parameters
    ----------
    first, last : int
        Their rows are among the stored rows ``[first, last)``.
    floor : int
        Largest time before those rows.
    begin, end : ArrivalPoint
        Their places are from ``begin`` on and before ``end``.
    """

    first: int
    last: int
    floor: int
    begin: ArrivalPoint
    end: ArrivalPoint


class ArrivalOrder:
    """The order of arrival of all rows.

    Parameters
    ----------
    times : ndarray of int64
        By row; NO_TIME for rows without a time.
    disorder : int
        Largest delay of an arrival, in the unit of the times.
    seed : int
    """

    def __init__(self, times: np.ndarray, disorder: int, seed: int) -> None:
        self._largest = np.maximum.accumulate(times)
        moments = _moments(self._largest, 0, disorder, seed)
        self._row = np.argsort(moments, kind="stable")
        self.moments = moments[self._row]

    def __len__(self) -> int:
        return len(self._row)

    def until(self, moment: int) -> int:
        """How many rows arrive at or before a moment."""
        return int(np.searchsorted(self.moments, moment, side="right"))

    def piece(self, begin: int, end: int) -> ArrivalPiece:
        """The piece of arrivals ``[begin, end)``, at least one."""
        rows = self._row[begin:end]
        first = int(rows.min())
        floor = int(self._largest[first - 1]) if first else NO_TIME
        return ArrivalPiece(first, int(rows.max()) + 1, floor, self._place(begin), self._place(end))

    def _place(self, position: int) -> ArrivalPoint:
        if position == len(self):
            return ArrivalPoint(int(np.iinfo(np.int64).max), position)
        return ArrivalPoint(int(self.moments[position]), int(self._row[position]))


def arriving(piece: ArrivalPiece, times: np.ndarray, disorder: int, seed: int) -> np.ndarray:
    """Select the rows of ``[piece.first, piece.last)`` that arrive in a piece, in their order.

    Parameters
    ----------
    piece : ArrivalPiece
    times : ndarray of int64
        Of these rows.
    disorder, seed : int
        As for :class:`ArrivalOrder`.

    Returns
    -------
    ndarray of int64
        Places in ``times``.
    """
    largest = np.maximum(np.maximum.accumulate(times), piece.floor)
    moments = _moments(largest, piece.first, disorder, seed)
    row = np.arange(piece.first, piece.last)

    def from_on(place: ArrivalPoint) -> np.ndarray:
        return (moments > place.moment) | ((moments == place.moment) & (row >= place.row))

    chosen = np.flatnonzero(from_on(piece.begin) & ~from_on(piece.end))
    return chosen[np.argsort(moments[chosen], kind="stable")]


def _moments(largest: np.ndarray, first: int, disorder: int, seed: int) -> np.ndarray:
    """Moments of arrival, by the largest time up to each row; rows are numbered from ``first``."""
    if not disorder:
        return largest
    number = np.arange(first, first + len(largest), dtype=np.uint64)
    start = mixed(np.full(1, seed, np.uint64) + SEED)
    late = mixed(number + start + SEED) % np.uint64(disorder + 1)
    # Rows before the first time stay where they are.
    return np.where(largest == NO_TIME, largest, largest + late.astype(np.int64))
