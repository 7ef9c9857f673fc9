"""Orders: all that any lane needs to run some tasks, or to run them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.program import Mode, Program

from ..device.base import Folds, Kernel, Result, Task
from ..device.cut import Piece
from ..device.merge import merged_once
from ..device.search import SPARE_ROWS, SearchPiece
from ..keys.prepare import Layout
from ..prune.parts import Part, Searched
from ..windows.probe import Probe
from ..windows.run import Snapshot
from .arrivals import BoundArrivals
from .memory import DeviceMemory, Lease
from .pairs import Pairs, Submit, TaskPart

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
    def program(self) -> Program:
        return self.layout.program

    @property
    def run(self) -> int:
        """Number of the run that tasks read."""
        return self.ranges.source.run

    @property
    def is_near_end(self) -> bool:
        """Whether few tuples of the probe follow, so that its other orders are soon known."""
        following = len(self.probe.evaluated.start) - int(self.kept[-1]) - 1
        return following <= len(self.kept) // FEW

    def lease(self, memory: DeviceMemory, piece: Piece, timeout_s: float) -> Lease | None:
        """Lease the positions that a piece reads; None if its tasks bring their window."""
        if isinstance(self.ranges, Searched):
            return None
        source, layout = self.ranges.source, self.layout
        return memory.lease(source, layout, piece.low, piece.high, timeout_s, self.modes)

    def start(
        self, piece: Piece, lease: Lease | None, room: int, kernel: Kernel, submit: Submit
    ) -> Iterator[TaskPart]:
        """Submit the tasks of a piece one by one: one for each span of its window.

        Parameters
        ----------
        room : int
            Most pairs of all results, where the kernel can do with so few.
        """
        if lease is None:
            assert isinstance(self.ranges, Searched)
            search = self.ranges.task(piece, self.arrays, max(room, SPARE_ROWS), self.mode)
            yield TaskPart(piece, self.ranges.source.first, submit(None, search))
            return
        for span in lease.spans:
            part = piece
            if span.low > piece.low or span.high < piece.high:
                part = piece.clipped(span.low, span.high)
            if not len(part.rows):
                continue
            by = span.low - span.offset
            task = Task(
                part.entries(self.arrays),
                part.start - by if by else part.start,
                part.end - by if by else part.end,
                max(room // len(lease.spans), kernel.min_room),
                self.mode,
            )
            yield TaskPart(part, by, submit(lease.window.buffers[span.buffer], task))

    def pairs(self, piece: Piece, result: Result, by: int) -> Pairs:
        """Return matches as tuples of the probe and logical positions of its window.

        Parameters
        ----------
        piece, by
            Of the task, as in :class:`TaskPart`.
        """
        rows, i, j = piece.rows, result.i, result.j
        if len(i) < len(rows):
            i, tuples = self.probe.tuples(self.kept[rows[i]]), None
        else:
            tuples = self.probe.tuples(self.kept[rows])
        # Other sources have the window's rows in another order.
        gives_positions = isinstance(self.ranges, Searched) or isinstance(
            self.ranges.source, Snapshot
        )
        if self.probe.part is None and gives_positions:
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
    """Part of a probe that one lane runs: as one task, or as several where it pauses.

    Parameters
    ----------
    batch : int
        Number of the batch of the probing tuples.
    piece : Piece
        ``rows`` index ``bound.arrays``, or are places in ``bound.arrivals``; ranges are positions
        of the run that is read, or rows of the other side.
    """

    batch: int
    bound: BoundProbe | BoundArrivals
    piece: Piece
    evaluations: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "evaluations", self.piece.evaluations)

    @property
    def admitted(self) -> int | None:
        """Pairs that the window admits, for a search, which tests only a part; else None."""
        return self.piece.admitted if isinstance(self.piece, SearchPiece) else None
