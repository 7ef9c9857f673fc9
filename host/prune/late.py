"""Searches whose keys are made where they run: the lanes share that work, and portions are few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.program import Mode

from ..device.cut import Piece
from ..device.search import LateSearch, SearchPiece, SearchTask
from .cells import Grid
from .search import Searched


@dataclass(frozen=True)
class TupleKeys:
    """Keys of stream tuples.

    Parameters
    ----------
    arrays : sequence of ndarray
        Device arrays.
    bounds : sequence of ndarray
        ``lo_0, hi_0, lo_1, ...``, what the tuples are searched by.
    possible : ndarray of bool
        Whether a tuple can match at all.
    """

    arrays: Sequence[np.ndarray]
    bounds: Sequence[np.ndarray]
    possible: np.ndarray


@dataclass(frozen=True, eq=False)
class SearchedLate(Searched):
    """Neighbouring tuples that a device searches for, before they have keys.

    Parameters
    ----------
    grid : Grid
        Of the source.
    keys : callable
        Makes the keys of the tuples ``[low, high)``, in any thread.
    """

    grid: Grid
    keys: Callable[[int, int], TupleKeys]

    def task(self, piece: Piece, arrays: Sequence[np.ndarray], room: int, mode: Mode) -> LateSearch:
        assert isinstance(piece, SearchPiece)
        return LateSearch(lambda: self._make(piece, room, mode), len(piece.rows), room, mode)

    def _make(self, piece: SearchPiece, room: int, mode: Mode) -> SearchTask:
        keys = self.keys(int(piece.rows[0]), int(piece.rows[-1]) + 1)
        start, end = piece.start, piece.end
        if not keys.possible.all():
            start, end = (np.where(keys.possible, ends, 0) for ends in (start, end))
        boxes = self.grid.boxes(keys.bounds)
        rows, floor = self.source.rows, self.floor(piece)
        return SearchTask(keys.arrays, start, end, room, rows, boxes, mode, floor)
