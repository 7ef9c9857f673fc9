"""Runs one large range join as many device tasks.

Results come back while later tasks run, and at most two tasks per lane hold results at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import numpy as np

from penstock.errors import DeviceError, UsageError

from ..device.base import AnyTask, Kernel, Result, Task, WindowBuffer
from ..device.cut import TASK_EVALUATIONS, Piece, cut, whole

#: Seconds after which a task that has not ended counts as hung.
TIMEOUT_S = 600.0

#: Source of a task, such as its piece.
P = TypeVar("P")


def run_task(
    kernel: Kernel,
    window: WindowBuffer,
    task_stream: Sequence[np.ndarray],
    start: np.ndarray,
    end: np.ndarray,
    *,
    room: int,
    lanes: int,
    task_evaluations: int = TASK_EVALUATIONS,
    timeout_s: float = TIMEOUT_S,
) -> Generator[Result, None, None]:
    """Run a range join on all lanes of a device.

    Closing the generator, or an exception in its consumer, cancels the tasks that have not started
    and waits for the others, so that the window may be freed afterwards.

    Parameters
    ----------
    window : WindowBuffer
        Allocated by ``kernel``; its rows in the ranges must not be written until the end.
    task_stream : sequence of ndarray, each of shape (n,)
        Keys, as for ``Task.stream``.
    start, end : ndarray of int64, shape (n,)
        As ``Task.start`` and ``Task.end``, except that empty ranges (``start >= end``) may be
        anywhere.
    room : int
        Most pairs of one result. At most ``2 * lanes`` results are held at a time.
    task_evaluations : int
        Most evaluations of one task, if it can be cut.

    Yields
    ------
    Result
        In order of submission; the rest of a paused task is submitted before other work. ``i``
        indexes the caller's tuples; ``pause`` is always None.

    Raises
    ------
    UsageError
        An argument is out of range.
    DeviceError
        A task failed, or did not end in time.
    """
    if room < kernel.min_room:
        raise UsageError(f"room must be at least {kernel.min_room} pairs, not {room!r}")
    check_sizes(lanes, task_evaluations)
    fresh = cut(whole(start, end), lanes, task_evaluations)
    resumed: list[Piece] = []
    stream = [np.asarray(column) for column in task_stream]

    def following() -> tuple[Piece, Task] | None:
        piece = resumed.pop() if resumed else next(fresh, None)
        return None if piece is None else (piece, _task(piece, stream, room))

    flights = fly(kernel, window, following, _description, lanes=lanes, timeout_s=timeout_s)
    with closing(flights) as results:
        for piece, result in results:
            if result.pause is not None:
                resumed += piece.remaining(result.pause)
            yield replace(result, i=piece.rebased(result.i), pause=None)


def _task(piece: Piece, stream: Sequence[np.ndarray], room: int) -> Task:
    return Task([c[piece.rows] for c in stream], piece.start, piece.end, room)


def _description(piece: Piece) -> str:
    return (
        f"{len(piece.rows)} stream tuples (from number {piece.rows[0]} on) and {piece.evaluations} "
        "evaluations"
    )


def check_sizes(lanes: int, task_evaluations: int) -> None:
    """Refuse sizes with which no join can run."""
    if lanes < 1:
        raise UsageError(f"lanes must be at least 1, not {lanes!r}")
    if task_evaluations < 1:
        raise UsageError(f"task_evaluations must be at least 1, not {task_evaluations!r}")


def fly(
    kernel: Kernel,
    window: WindowBuffer | None,
    following: Callable[[], tuple[P, AnyTask] | None],
    describe: Callable[[P], str],
    *,
    lanes: int,
    timeout_s: float,
) -> Generator[tuple[P, Result], None, None]:
    """Keep two tasks per lane in flight; give results in order of submission.

    Closing the generator cancels and waits as for :func:`run_task`.

    Parameters
    ----------
    window : WindowBuffer or None
        As ``Kernel.submit`` takes it.
    following : callable
        Returns the source of the next task, and the task; None if there is none now.
    describe : callable
        Describes a task's source in words, for messages.
    """
    flying: deque[tuple[P, Future[Result]]] = deque()
    try:
        while True:
            while len(flying) < 2 * lanes and (one := following()) is not None:
                piece, task = one
                flying.append((piece, kernel.submit(window, task)))
            if not flying:
                return
            piece, future = flying[0]
            try:
                result = future.result(timeout_s)
            except FutureTimeoutError as cause:
                if future.done():
                    raise
                raise DeviceError(
                    f"a task of {describe(piece)} did not end within {timeout_s:g} s: the device "
                    "hangs, or the task is too large for it; pass a smaller task_evaluations or a "
                    "longer timeout_s"
                ) from cause
            flying.popleft()
            yield piece, result
    finally:
        running = [future for _, future in flying if not future.cancel()]
        wait(running, timeout_s)
