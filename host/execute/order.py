"""Orders: all that any lane needs to run some tasks, or to run them again; the pairs they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from penstock.errors import DeviceError
from penstock.program import Mode, Program, WindowProgram

from ..device.base import PAIRS, AnyTask, Folds, Kernel, Pause, Result, Task, WindowBuffer
from ..device.cut import Cutting, Piece
from ..device.merge import merged_once
from ..device.search import SPARE_ROWS, AnySearch, SearchPiece
from ..device.window_join import Arrivals, WindowTask
from ..keys.prepare import Layout
from ..prune.parts import Part, Searched
from ..windows.probe import Probe
from ..windows.run import Snapshot
from .memory import DeviceMemory, Lease

#: Tuples are few, at a probe's end or without a possible match, if at most one is for so many.
FEW = 8
#: Tuples of a task for each tuple of its history: replaying costs less than matching.
_TUPLES_PER_HISTORY = 4


@dataclass(frozen=True, eq=False)
class Pairs:
    """Tuples of a probe, and positions of its window, that match.

    Parameters
    ----------
    i, j : ndarray of int, shape (n,)
        Pair k joins tuple ``tuples[i[k]]`` and position ``first + j[k]``.
    tuples : ndarray of int, optional
        By default ``i`` has the tuples themselves.
    first : int
    """

    i: np.ndarray
    j: np.ndarray
    tuples: np.ndarray | None = None
    first: int = 0

    def __len__(self) -> int:
        return len(self.i)

    @property
    def stream(self) -> np.ndarray:
        """The tuple of each pair."""
        return self.i if self.tuples is None else self.tuples[self.i]

    @property
    def positions(self) -> np.ndarray:
        """The position of each pair."""
        return self.j.astype(np.int64) + self.first

    def pick(self, chosen: np.ndarray | slice) -> Pairs:
        """Return some of the pairs; a slice copies nothing."""
        return Pairs(self.i[chosen], self.j[chosen], self.tuples, self.first)


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Join the pairs of one or more tasks of one probe."""
    if len(parts) == 1:
        return parts[0]
    is_one = len({part.first for part in parts}) == 1  # so that they stay in 32 bits
    first = parts[0].first if is_one else 0
    positions = [part.j if is_one else part.positions for part in parts]
    stream = np.concatenate([part.stream for part in parts])
    return Pairs(stream, np.concatenate(positions), None, first)


#: Starts a task, as ``Kernel.submit`` does.
Submit = Callable[[WindowBuffer | None, AnyTask | AnySearch], Future[Result]]


@dataclass(eq=False)
class TaskPart:
    """A device task of an order, once it has been submitted.

    Parameters
    ----------
    piece : Piece
        Part of the order's piece.
    by : int
        Logical position that the task's positions count from.
    """

    piece: Piece
    by: int
    future: Future[Result]


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
            i, tuples = self._tuples(piece.rebased(i)), None
        else:
            tuples = self._tuples(rows)
        # Other sources have the window's rows in another order.
        gives_positions = isinstance(self.ranges, Searched) or isinstance(
            self.ranges.source, Snapshot
        )
        if self.probe.part is None and gives_positions:
            return Pairs(i, j, tuples, by)
        positions = self.ranges.positions(j.astype(np.int64) + by)
        return Pairs(i, self.probe.positions(positions), tuples)

    def _tuples(self, rows: np.ndarray) -> np.ndarray:
        """Map indices into ``arrays`` to tuples of the probe, in 32 bits where that is quick."""
        first, last = int(self.kept[0]), int(self.kept[-1])
        if last - first + 1 > len(self.kept) or last >> 32:
            return self.probe.tuples(self.kept[rows])
        return self.probe.tuples(rows + np.uint32(first) if first else rows)

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


@dataclass(frozen=True)
class WindowPiece(Piece):
    """Tuples in order of arrival, each with the rows of the other side that it meets.

    Parameters
    ----------
    history : ndarray of int64
        Places of the tuples that they may meet before, ascending.
    """

    history: np.ndarray

    @property
    def places(self) -> np.ndarray:
        """Places of the history and of the tuples."""
        return np.concatenate([self.history, self.rows])

    def remaining(self, pause: Pause) -> list[Piece]:
        done = pause.i0 - len(self.history)
        if done <= 0:
            raise DeviceError("a task with enough room got nowhere; the device does not work")
        return [self.part(done, len(self.rows))] if done < len(self.rows) else []


@dataclass(frozen=True, eq=False)
class BoundArrivals:
    """All tuples of a ROWS window join, in order of arrival, with their program.

    A task begins with the history that its first tuples meet, so tasks do not depend on each
    other: they may run on several lanes, and a task that ran out of room is resumed by another.

    Parameters
    ----------
    probe : Probe
        Its stream are the tuples of side A, its window those of side B.
    """

    probe: Probe
    program: WindowProgram
    arrivals: Arrivals

    mode, modes = Mode.PAIRS, PAIRS
    #: Number of the run that tasks read: all bring their window.
    run = 0
    #: A window join is no search, and all its orders are known at once.
    may_search, is_near_end = False, True

    @cached_property
    def whole(self) -> Piece:
        """All tuples; tuples that meet nothing enter the windows, too."""
        start, end = self.arrivals.met(self.program.rows)
        return Piece(np.arange(len(start), dtype=np.uint32), start, end)

    def pieces(self, cutting: Cutting) -> Iterator[Piece]:
        """Cut into pieces of about equal evaluations, unless histories would outweigh them."""
        upto = np.cumsum(self.whole.end - self.whole.start)
        least_rows = max(_TUPLES_PER_HISTORY * sum(self.program.rows), 1)
        for low, high in cutting.stretches(upto, least_rows=least_rows):
            yield self.whole.part(low, high)

    def lease(self, memory: DeviceMemory, piece: Piece, timeout_s: float) -> None:
        """Return None: tasks bring their window."""

    def start(
        self, piece: Piece, lease: Lease | None, room: int, kernel: Kernel, submit: Submit
    ) -> Iterator[TaskPart]:
        """Submit the one task of a piece; parameters as for :meth:`.BoundProbe.start`."""
        part = WindowPiece(piece.rows, piece.start, piece.end, self._history(int(piece.rows[0])))
        tuples = self.arrivals.pick(part.places)
        task = WindowTask(tuples, len(part.history), max(room, kernel.min_room))
        yield TaskPart(part, 0, submit(None, task))

    def pairs(self, piece: Piece, result: Result, by: int) -> Pairs:
        """Return pairs as rows of A and of B.

        Raises
        ------
        DeviceError
            The result names tuples that its task does not have.
        """
        assert isinstance(piece, WindowPiece)
        number, is_b = self._number[piece.places], self.arrivals.is_b[piece.places]
        try:
            return Pairs(number[~is_b][result.i], number[is_b][result.j])
        except IndexError as cause:
            raise DeviceError(
                "a device gave an impossible result (pairs of tuples that its task does not have); "
                "the task is run again elsewhere"
            ) from cause

    def _history(self, low: int) -> np.ndarray:
        """Return the places of the window tuples when tuple ``low`` arrives, ascending."""
        before = (places[: np.searchsorted(places, low)] for places in self._places)
        rows = self.program.rows
        return np.sort(
            np.concatenate(
                [places[max(len(places) - n, 0) :] for places, n in zip(before, rows, strict=True)]
            )
        )

    @cached_property
    def _number(self) -> np.ndarray:
        return self.arrivals.number.astype(np.uint32)

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """Places of the tuples of each side."""
        return np.flatnonzero(~self.arrivals.is_b), np.flatnonzero(self.arrivals.is_b)


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
