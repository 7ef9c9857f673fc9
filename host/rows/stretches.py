"""Stretches of an input that lie together in a block, with the block and their place in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .sides import SideRows


@dataclass(frozen=True, eq=False)
class NamedBlock:
    """Rows that never change, so that results computed from them can be found by their name.

    Parameters
    ----------
    name : str
        Unique within the scope of one query.
    rows : SideRows
        All rows, in the order of time.
    """

    name: str
    rows: SideRows


@dataclass(frozen=True)
class Stretch:
    """Rows of a table that are rows of a block, in its order.

    Parameters
    ----------
    block : NamedBlock
    first : int
        Index in the block of the first row.
    at : int
        Index in the table of the first row.
    rows : int
        Number of rows.
    """

    block: NamedBlock
    first: int
    at: int
    rows: int

    def moved(self, by: int) -> Stretch:
        """The same rows, counted from this many rows earlier in a longer table."""
        return replace(self, at=self.at + by)


@dataclass(frozen=True)
class WindowPart:
    """Rows of a window that lie together in a run, in the window's order.

    Parameters
    ----------
    rows : SideRows
        Rows of the run.
    block : NamedBlock or None
        The run's block, if it is one.
    first : int
        Position in the run of the part's first row; the others follow.
    place : ndarray of int64
        Place of each row in the window, ascending.
    """

    rows: SideRows
    block: NamedBlock | None
    first: int
    place: np.ndarray

    def ranges(self, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Clip ranges of places to this part, as ranges of positions in the run."""
        place, count = self.place, len(self.place)
        if place[-1] - place[0] == count - 1:  # without gaps: no search
            low = int(place[0])
            places = (np.clip(ends - low, 0, count) for ends in (start, end))
        else:
            places = (np.searchsorted(place, ends) for ends in (start, end))
        low_end, high_end = (ends + self.first for ends in places)
        return low_end, high_end

    def places(self, positions: np.ndarray) -> np.ndarray:
        """Places in the window of rows by position in the run."""
        return self.place[positions.astype(np.int64) - self.first]


def window_parts(window: SideRows, stretches: Sequence[Stretch]) -> list[WindowPart]:
    """Split a window by its rows' blocks; the last part has the rows without a block."""
    row = window.row
    parts, left = [], np.ones(len(row), bool)
    is_ordered = bool(np.all(row[1:] > row[:-1]))
    for stretch in stretches:
        if is_ordered:
            ends = np.searchsorted(row, [stretch.at, stretch.at + stretch.rows])
            place = np.arange(*ends)
        else:
            inside = (row >= stretch.at) & (row < stretch.at + stretch.rows)
            place = np.flatnonzero(inside)
        if not len(place):
            continue
        block_rows = row[place]
        # Only some of the block's rows, or in another order: not the block itself.
        if np.any(block_rows[1:] != block_rows[:-1] + 1):
            continue
        first = stretch.first + int(block_rows[0]) - stretch.at
        parts.append(WindowPart(stretch.block.rows, stretch.block, first, place))
        left[place] = False
    outside = np.flatnonzero(left)
    if len(outside):
        rows = window if len(outside) == len(row) else window.pick(outside)
        parts.append(WindowPart(rows, None, 0, outside))
    return parts
