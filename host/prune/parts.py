"""Parts of a probe: tuples to search for, and ranges of a run's rows, in some order of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.program import Mode

from ..device.cut import Piece
from ..device.search import (
    AnySearch,
    Boxes,
    LateSearch,
    OrderedRows,
    RangeWalk,
    SearchPiece,
    SearchTask,
)
from ..device.zones import ZoneBounds
from ..keys.prepare import Layout
from ..windows.run import Snapshot
from .cells import Grid
from .choice import CORE, GridChoice
from .costed import ALL_PAIRS, KIND
from .zones import ZoneOrder


@dataclass(frozen=True, eq=False)
class OrderedRun:
    """Ordered rows as a run of their own, whose positions are places.

    Parameters
    ----------
    run : int
        Number of the run.
    base : int
        Number of the run whose rows these are.
    rows : OrderedRows
    """

    run: int
    base: int
    rows: OrderedRows

    @property
    def first(self) -> int:
        return self.rows.first

    @property
    def end(self) -> int:
        return self.rows.end

    def columns(self, layout: Layout, low: int, high: int) -> list[np.ndarray]:
        """Device columns of the places ``[low, high)``."""
        return [column[low - self.first : high - self.first] for column in self.rows.columns]


@dataclass(frozen=True, eq=False)
class Searched(ABC):
    """Tuples that a device searches for in ordered rows.

    Parameters
    ----------
    source : OrderedRun
    piece : SearchPiece
    """

    source: OrderedRun
    piece: SearchPiece

    @property
    def pieces(self) -> tuple[SearchPiece, ...]:
        return (self.piece,)

    @property
    def evaluations(self) -> int:
        """Pairs that the window admits; how many are tested is known afterwards."""
        return self.piece.admitted

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of the source's order."""

    @abstractmethod
    def task(self, piece: Piece, arrays: Sequence[np.ndarray], room: int, mode: Mode) -> AnySearch:
        """The task of some tuples.

        Parameters
        ----------
        piece : SearchPiece
        arrays : sequence of ndarray
            Device arrays of all tuples.
        """

    def floor(self, piece: SearchPiece) -> np.ndarray | None:
        """For each tuple of a piece, the place below which it is done; None for no limit."""
        return None if piece.floor is None else piece.floor - self.source.first

    def positions(self, places: np.ndarray) -> np.ndarray:
        """Positions in the run of the device's hits; here they are positions already."""
        return places


@dataclass(frozen=True, eq=False)
class SearchedBoxes(Searched):
    """Tuples with keys that a device searches for.

    Parameters
    ----------
    boxes : Boxes or ZoneBounds
        Of all tuples.
    """

    boxes: Boxes | ZoneBounds

    @property
    def kind(self) -> str:
        return KIND[ZoneOrder if isinstance(self.boxes, ZoneBounds) else Grid]

    def task(self, piece: Piece, arrays: Sequence[np.ndarray], room: int, mode: Mode) -> SearchTask:
        assert isinstance(piece, SearchPiece)
        return SearchTask(
            piece.entries(arrays),
            piece.start,
            piece.end,
            room,
            self.source.rows,
            type(self.boxes)(*piece.entries(self.boxes.arrays)),
            mode,
            self.floor(piece),
        )


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
    """Neighbouring tuples that a device searches for; their keys are made when their task runs.

    Parameters
    ----------
    grid : Grid or ZoneOrder
        Of the source.
    keys : callable
        Makes the keys of the tuples ``[low, high)``, in any thread.
    """

    grid: Grid | ZoneOrder
    keys: Callable[[int, int], TupleKeys]

    @property
    def kind(self) -> str:
        return KIND[type(self.grid)]

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


@dataclass(frozen=True, eq=False)
class PrunedRanges:
    """Ranges of stream tuples in one order of a run's rows.

    Parameters
    ----------
    source : Snapshot or OrderedRun
    pieces : tuple of Piece
        Positions are those of the source.
    """

    source: Snapshot | OrderedRun
    pieces: tuple[Piece, ...]

    @property
    def kind(self) -> str:
        """The kind of the source's order."""
        return ALL_PAIRS if isinstance(self.source, Snapshot) else KIND[Grid]

    @property
    def evaluations(self) -> int:
        return sum(piece.evaluations for piece in self.pieces)

    def positions(self, places: np.ndarray) -> np.ndarray:
        """Map the device's hits in the source to positions in the run."""
        if isinstance(self.source, Snapshot):
            return places
        rows = self.source.rows
        at = places - rows.first
        return rows.order[at] + (places - at % rows.rows)


Part = PrunedRanges | Searched


def slab_visits(ranges: Piece, rows: int) -> float:
    """About how many slabs of so many rows the tuples visit in all."""
    return len(ranges.rows) + ranges.evaluations / rows


def searched(
    ordered: OrderedRun, boxes: Boxes | ZoneBounds, piece: Piece, choice: GridChoice
) -> Searched:
    return SearchedBoxes(ordered, search_piece(ordered, piece, choice), boxes)


def search_piece(ordered: OrderedRun, piece: Piece, choice: GridChoice) -> SearchPiece:
    """Tuples to search for, with their expected cost."""
    slabs = slab_visits(piece, ordered.rows.rows) / len(piece.rows)
    cost = choice.tuple_ns / CORE.scan_ns * slabs
    return SearchPiece(piece.rows, piece.start, piece.end, cost, piece.evaluations)


def expanded(ordered: OrderedRun, boxes: Boxes | ZoneBounds, ranges: Piece) -> PrunedRanges:
    """Ranges of places that tuples visit, sorted so that places never step back."""
    tuples = boxes.pick(ranges.rows), ranges.start, ranges.end
    walk = RangeWalk(ordered.rows, *tuples, None, apart=True)
    parts = [(walk.row[:0], walk.low[:0], walk.high[:0])]
    while count := walk.next():
        parts.append((walk.row[:count].copy(), walk.low[:count].copy(), walk.high[:count].copy()))
    row, low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
    # Cells do not overlap, and in each cell ranges rise with the tuples.
    order = np.argsort(low, kind="stable")
    first = ordered.rows.first
    piece = Piece(ranges.rows[row[order]], first + low[order], first + high[order])
    return PrunedRanges(ordered, (piece,) if len(order) else ())
