"""Runs one long ROWS window join as tasks of the window-join operator.

A task begins with the history that its first tuples meet, so tasks do not depend on each other:
they may run on several lanes, and a task that ran out of room is resumed by another one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.errors import DeviceError, UsageError

from ..device.base import Kernel, Result
from ..device.cut import LEAST_EVALUATIONS, TASK_EVALUATIONS, TASKS_PER_LANE
from ..device.window_join import Arrivals, WindowTask
from .run import TIMEOUT_S, check_sizes, fly

#: Tuples of a task for each tuple of its history: replaying costs less than matching.
_TUPLES_PER_HISTORY = 4


def run_window_join(
    kernel: Kernel,
    tuples: Arrivals,
    *,
    room: int,
    lanes: int,
    task_evaluations: int = TASK_EVALUATIONS,
    timeout_s: float = TIMEOUT_S,
) -> Generator[Result, None, None]:
    """Run a ROWS window join on all lanes of a device.

    Closing the generator cancels the tasks that have not started and waits for the others.

    Parameters
    ----------
    kernel : Kernel
        Kernel of a ``WindowProgram``.
    task_evaluations : int
        Approximate evaluations of one task, unless its history would outweigh them.
    room, lanes, timeout_s
        As for :func:`~penstock.host.execute.run.run_task`.

    Yields
    ------
    Result
        ``i`` and ``j`` are rows of the caller's columns of A and of B; ``pause`` is always None.

    Raises
    ------
    UsageError, DeviceError
        As for :func:`~penstock.host.execute.run.run_task`.
    """
    rows = kernel.program.rows
    if room < kernel.min_room:
        raise UsageError(
            f"room must be at least {kernel.min_room} pairs for windows of {rows[0]} and "
            f"{rows[1]} rows, not {room!r}"
        )
    check_sizes(lanes, task_evaluations)
    cutter = _Cutter(tuples, rows)
    fresh = cutter.pieces(lanes, task_evaluations)
    resumed: list[tuple[int, int]] = []

    def following() -> tuple[_Piece, WindowTask] | None:
        bounds = resumed.pop() if resumed else next(fresh, None)
        if bounds is None:
            return None
        piece = _Piece(*bounds, cutter.history(bounds[0]))
        return piece, WindowTask(tuples.pick(piece.places), len(piece.history), room)

    with closing(fly(kernel, None, following, str, lanes=lanes, timeout_s=timeout_s)) as results:
        for piece, result in results:
            if result.pause is not None:
                done = piece.low + result.pause.i0 - len(piece.history)
                if done <= piece.low:
                    raise DeviceError(f"a task with enough room, for {room} pairs, got nowhere")
                if done < piece.high:
                    resumed.append((done, piece.high))
            a, b = cutter.rows_of(piece.places)
            yield replace(result, i=a[result.i], j=b[result.j], pause=None)


@dataclass(frozen=True)
class _Piece:
    """Tuples ``[low, high)``, and the places of the tuples that they may meet before."""

    low: int
    high: int
    history: np.ndarray

    @cached_property
    def places(self) -> np.ndarray:
        return np.concatenate([self.history, np.arange(self.low, self.high)])

    def __str__(self) -> str:
        return (
            f"{self.high - self.low} tuples (from number {self.low} on) and a history of "
            f"{len(self.history)}"
        )


class _Cutter:
    """Cuts arrivals into pieces, and finds the history of each."""

    def __init__(self, tuples: Arrivals, rows: tuple[int, int]) -> None:
        self._is_b = tuples.is_b
        self._number = tuples.number.astype(np.uint32)
        self._rows = rows
        # Places of the tuples of each side.
        self._places = np.flatnonzero(~self._is_b), np.flatnonzero(self._is_b)
        start, end = tuples.met(rows)
        self._upto = np.cumsum(end - start)

    def pieces(self, lanes: int, most: int) -> Iterator[tuple[int, int]]:
        """Cut the tuples into ranges with about equal evaluations, in order."""
        count = len(self._upto)
        if not count:
            return
        total = int(self._upto[-1])
        target = min(most, max(total // (TASKS_PER_LANE * lanes), LEAST_EVALUATIONS))
        least = max(_TUPLES_PER_HISTORY * sum(self._rows), 1)
        low = 0
        while low < count:
            done = int(self._upto[low - 1]) if low else 0
            high = int(np.searchsorted(self._upto, done + target, side="right"))
            high = min(count, max(high, low + least))
            yield low, high
            low = high

    def history(self, low: int) -> np.ndarray:
        """Return the places of the window tuples when tuple ``low`` arrives, ascending."""
        before = (np.searchsorted(places, low) for places in self._places)
        latest = [
            places[max(end - rows, 0) : end]
            for places, end, rows in zip(self._places, before, self._rows, strict=True)
        ]
        return np.sort(np.concatenate(latest))

    def rows_of(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split some tuples by side; return the caller's rows of A's and of B's."""
        number, is_b = self._number[places], self._is_b[places]
        return number[~is_b], number[is_b]
