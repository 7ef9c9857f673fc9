"""Orders: all that any lane needs to run a task, or to run it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.program import Mode

from ..device.base import Folds
from ..device.cut import Piece
from ..device.merge import merged_once
from ..device.search import SearchPiece
from ..keys.prepare import Layout
from ..prune.search import Part, Searched
from ..windows.probe import Probe
from ..windows.run import Snapshot
from .pairs import Pairs

#: An order is near its probe's end if at most one tuple follows per this many of its own.
FEW = 8


@dataclass(frozen=True, eq=False)
class BoundProbe:
    """A probe with its program and stream keys, against its window's rows in one order.

    Parameters
    ----------
    ranges : PrunedRanges or Searched
        What to read: ranges of the probe's window, or of its rows in another order.
    arrays : sequence of ndarray
        Device arrays of the tuples that can match.
    kept : ndarray of int64
        Indices of these tuples among those that are evaluated.
    modes : frozenset of Mode
        All modes of the probe's form; one kernel serves them together.
    may_search : bool
        Whether later tuples of the form may be searched for.
    """

    probe: Probe
    ranges: Part
    layout: Layout
    arrays: Sequence[np.ndarray]
    kept: np.ndarray
    mode: Mode = Mode.PAIRS
    modes: frozenset[Mode] = frozenset({Mode.PAIRS})
    may_search: bool = False

    @property
    def _gives_positions(self) -> bool:
        """Whether devices give positions of the window, not places of its rows in another order."""
        return isinstance(self.ranges, Searched) or isinstance(self.ranges.source, Snapshot)

    def pairs(self, rows: np.ndarray, i: np.ndarray, j: np.ndarray, by: int) -> Pairs:
        """Return matches as tuples of the probe and logical positions of its window.

        Parameters
        ----------
        rows : ndarray of int
            Indices into ``arrays``.
        i, j : ndarray of int, shape (m,)
            Indices into ``rows``, and the positions in ``ranges.source`` that they matched.
        by : int
            Position that ``j`` counts from.
        """
        if len(i) < len(rows):
            i, tuples = self.probe.tuples(self.kept[rows[i]]), None
        else:
            tuples = self.probe.tuples(self.kept[rows])
        if self.probe.part is None and self._gives_positions:
            return Pairs(i, j, tuples, by)
        positions = self.ranges.positions(j.astype(np.int64) + by)
        return Pairs(i, self.probe.positions(positions), tuples)

    def folds(self, rows: np.ndarray, folds: Folds, by: int) -> tuple[np.ndarray, Folds]:
        """Return folds by tuple of the probe, each tuple once.

        Parameters
        ----------
        rows : ndarray of int, shape (m,)
            Indices into ``arrays``; one may come several times.
        folds : Folds
            One per entry of ``rows``; positions count from ``by``.
        """
        if folds.position is not None:  # positions before merging: the first of equals counts
            position = np.full(len(folds.found), -1, np.int64)
            positions = self.ranges.positions(folds.position[folds.found] + by)
            position[folds.found] = self.probe.positions(positions)
            folds = replace(folds, position=position)
        tuples, folds = merged_once(self.mode, self.kept[rows], folds)
        return self.probe.tuples(tuples), folds


@dataclass(frozen=True, eq=False)
class Order:
    """Part of a probe, small enough for one task.

    Parameters
    ----------
    batch : int
        Number of the batch of the probing tuples.
    piece : Piece
        ``rows`` index ``bound.arrays``; ranges are positions of ``bound.ranges.source``.
    """

    batch: int
    bound: BoundProbe
    piece: Piece
    evaluations: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "evaluations", self.piece.evaluations)

    @property
    def admitted(self) -> int | None:
        """Pairs that the window admits, for a search, which tests only a part; else None."""
        return self.piece.admitted if isinstance(self.piece, SearchPiece) else None

    @property
    def is_near_end(self) -> bool:
        """Whether few tuples of the probe follow, so that its other orders are soon known."""
        kept = self.bound.kept
        following = len(self.bound.probe.evaluated.start) - int(kept[-1]) - 1
        return following <= len(kept) // FEW

    @property
    def window(self) -> int:
        """Number of the run that the order reads."""
        return self.bound.ranges.source.run

    @property
    def low(self) -> int:
        """First logical position that the order reads."""
        return self.piece.low

    @property
    def high(self) -> int:
        """Logical position after the last one that the order reads."""
        return self.piece.high
