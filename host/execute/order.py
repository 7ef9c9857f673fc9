"""A task on its way to a lane: everything that any lane needs to run it, or to run it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.program import Mode

from ..device.base import Folds
from ..device.cut import Piece
from ..device.merge import merged_once
from ..keys.prepare import Layout
from ..prune.plan import PrunedRanges
from ..windows.probe import Probe


@dataclass(frozen=True, eq=False)
class Bound:
    """A probe with its program and its stream keys, against the window in one order.

    Parameters
    ----------
    probe : Probe
    ranges : PrunedRanges
        What is read: ranges of the probe's window, or of its rows rearranged.
    layout : Layout
    arrays : sequence of ndarray
        Device arrays of the tuples that can match at all.
    kept : ndarray of int64
        Which of the tuples that are evaluated those are.
    mode : Mode
    modes : frozenset of Mode
        All that the probe's form is asked for; a kernel serves them together.
    """

    probe: Probe
    ranges: PrunedRanges
    layout: Layout
    arrays: Sequence[np.ndarray]
    kept: np.ndarray
    mode: Mode = Mode.PAIRS
    modes: frozenset[Mode] = frozenset({Mode.PAIRS})

    def pairs(self, rows: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Matches as tuples of the probe and logical positions of its window.

        Parameters
        ----------
        rows, places : ndarray of int64, shape (m,)
            Tuples that are evaluated, and where in ``ranges.source`` they matched.
        """
        own = self.probe.evaluated
        rows, found = self.ranges.matches(rows, places, own.start, own.end)
        return self.probe.tuples(rows), self.probe.positions(found)

    def folds(self, rows: np.ndarray, folds: Folds, by: int) -> tuple[np.ndarray, Folds]:
        """Partial aggregates of tuples of the probe, each once.

        Parameters
        ----------
        rows : ndarray of int, shape (m,)
            Of ``arrays``; one may come several times.
        folds : Folds
            Of these; its positions are counted from ``by``.
        by : int
        """
        tuples, folds = merged_once(self.mode, self.kept[rows], folds)
        if folds.position is not None:
            position = np.full(len(folds.found), -1, np.int64)
            found = folds.position[folds.found] + by
            position[folds.found] = self.probe.positions(found)
            folds = replace(folds, position=position)
        return self.probe.tuples(tuples), folds


@dataclass(frozen=True, eq=False)
class Order:
    """Part of a probe, small enough for one task.

    Parameters
    ----------
    batch : int
        Batch whose tuples probe.
    bound : Bound
    piece : Piece
        ``rows`` index ``bound.arrays``; ranges are positions of ``bound.ranges.source``.
    """

    batch: int
    bound: Bound
    piece: Piece
    evaluations: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "evaluations", self.piece.evaluations)

    @property
    def window(self) -> int:
        """Number of the run that it reads."""
        return self.bound.ranges.source.run

    @property
    def low(self) -> int:
        """First logical position that it reads."""
        return self.piece.low

    @property
    def high(self) -> int:
        """Logical position after the last one that it reads."""
        return self.piece.high
