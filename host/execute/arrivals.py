"""Window joins in tasks: tuples of both sides in order of arrival, cut where they are.

A task begins with the history that its first tuples meet, so tasks do not depend on each other:
they may run on several lanes, and a task that ran out of room is resumed by another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.errors import DeviceError
from penstock.program import Mode, WindowProgram

from ..device.base import PAIRS, Kernel, Pause, Result
from ..device.cut import Cutting, Piece
from ..device.window_join import Arrivals, WindowTask
from ..windows.probe import Probe
from .memory import DeviceMemory, Lease
from .pairs import Pairs, Submit, TaskPart

#: Tuples of a task for each tuple of its history: replaying costs less than matching.
_TUPLES_PER_HISTORY = 4


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
        """Submit the one task of a piece; parameters as for :meth:`.order.BoundProbe.start`."""
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
