"""Runs one long ROWS window join as tasks of the window-join operator.

A task begins with the history that its first tuples meet, so tasks do not depend on each other:
they may run on several lanes, and a task that ran out of room is resumed by another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace

import numpy as np

from penstock.errors import DeviceError, UsageError
from penstock.host.device.cut import LEAST_EVALUATIONS, TASK_EVALUATIONS, TASKS_PER_LANE
from penstock.host.device.run import TIMEOUT_S
from penstock.host.device.window_join import Arrivals, WindowKernel, WindowResult, WindowTask

#: Tuples of a task for each tuple of its history: replaying costs less than matching.
_TUPLES_PER_HISTORY = 4


def run_window_join(
    kernel: WindowKernel,
    tuples: Arrivals,
    rows: tuple[int, int],
    *,
    room: int,
    lanes: int,
    task_evaluations: int = TASK_EVALUATIONS,
    timeout_s: float = TIMEOUT_S,
) -> Generator[WindowResult, None, None]:
    """Run a ROWS window join on all lanes of a device.

    Parameters
    ----------
    kernel : WindowKernel
    tuples : Arrivals
    rows : (int, int)
        Sizes of the windows over A and over B.
    room : int
        Most pairs of one result.
    lanes : int
        ``Device.lanes`` of the kernel's device.
    task_evaluations : int
        Evaluations of one task, about, unless its history would outweigh them.
    timeout_s : float
        Seconds to wait for one task.

    Yields
    ------
    WindowResult
        ``a`` and ``b`` are rows of the caller's columns; ``done`` counts the caller's tuples from
        the start of the piece that the result is of.

    Raises
    ------
    UsageError
        An argument is out of range.
    DeviceError
        A task failed, or did not end in time.

    Notes
    -----
    Closing the generator cancels the tasks that have not started and waits for the others.
    """
    if room < kernel.min_room(rows):
        raise UsageError(
            f"room must be at least {kernel.min_room(rows)} pairs for windows of {rows[0]} and "
            f"{rows[1]} rows, not {room!r}"
        )
    if lanes < 1:
        raise UsageError(f"lanes must be at least 1, not {lanes!r}")
    if task_evaluations < 1:
        raise UsageError(f"task_evaluations must be at least 1, not {task_evaluations!r}")
    cutter = _Cutter(tuples, rows)
    fresh = cutter.pieces(lanes, task_evaluations)
    resumed: list[tuple[int, int]] = []
    flying: deque[tuple[int, int, np.ndarray, int, Future[WindowResult]]] = deque()
    try:
        while True:
            while len(flying) < 2 * lanes:
                piece = resumed.pop() if resumed else next(fresh, None)
                if piece is None:
                    break
                low, high = piece
                history = cutter.history(low)
                chosen = np.concatenate([history, np.arange(low, high)])
                task = WindowTask(tuples.pick(chosen), len(history), rows, room)
                flying.append((low, high, chosen, len(history), kernel.submit(task)))
            if not flying:
                return
            low, high, chosen, history, future = flying[0]
            try:
                result = future.result(timeout_s)
            except FutureTimeoutError as cause:
                raise DeviceError(
                    f"a task of {high - low} tuples (from number {low} on) and a history of "
                    f"{history} did not end within {timeout_s:g} s: the device hangs, or the task "
                    "is too large for it; pass a smaller task_evaluations or a longer timeout_s"
                ) from cause
            flying.popleft()
            done = low + result.done - history
            if done < high:
                if done <= low:
                    raise DeviceError(
                        f"a task with room for {room} pairs, which is enough, got nowhere"
                    )
                resumed.append((done, high))
            yield replace(
                result,
                a=cutter.rows_of(chosen, False)[result.a],
                b=cutter.rows_of(chosen, True)[result.b],
                done=done - low,
            )
    finally:
        running = [future for *_, future in flying if not future.cancel()]
        wait(running, timeout_s)


class _Cutter:
    """Cuts arrivals into pieces, and says what history each needs."""

    def __init__(self, tuples: Arrivals, rows: tuple[int, int]) -> None:
        self._is_b = tuples.is_b
        self._number = tuples.number.astype(np.uint32)
        self._rows = rows
        # Where the tuples of each side are.
        self._places = np.flatnonzero(~self._is_b), np.flatnonzero(self._is_b)
        start, end = tuples.met(rows)
        self._upto = np.cumsum(end - start)

    def pieces(self, lanes: int, most: int) -> Iterator[tuple[int, int]]:
        """Ranges of tuples with about equal evaluations, in order."""
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
        """Places of what is in the windows when tuple ``low`` arrives, ascending."""
        before = (np.searchsorted(places, low) for places in self._places)
        latest = [
            places[max(end - rows, 0) : end]
            for places, end, rows in zip(self._places, before, self._rows, strict=True)
        ]
        return np.sort(np.concatenate(latest))

    def rows_of(self, chosen: np.ndarray, of_b: bool) -> np.ndarray:
        """The caller's rows of one side's tuples among some tuples."""
        return self._number[chosen[self._is_b[chosen] == of_b]]
