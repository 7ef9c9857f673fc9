"""Runs one large range join as many device tasks.

Results come back while later tasks run, and at most two tasks per lane hold results at any time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing
from dataclasses import replace

import numpy as np

from penstock.errors import DeviceError, UsageError
from penstock.host.device.base import Kernel, Result, Task, WindowBuffer
from penstock.host.device.cut import TASK_EVALUATIONS, Piece, cut, whole
from penstock.host.device.merge import Merged
from penstock.program import Mode

#: Seconds after which a task that has not ended counts as hung.
TIMEOUT_S = 600.0


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

    Parameters
    ----------
    kernel : Kernel
    window : WindowBuffer
        Allocated by ``kernel``; its rows in the ranges must not be written until the end.
    task_stream : sequence of ndarray, each of shape (n,)
        As ``Task.stream``.
    start, end : ndarray of int64, shape (n,)
        As ``Task.start`` and ``Task.end``, except that empty ranges (``start >= end``) may be
        anywhere.
    room : int
        Most pairs of one result. At most ``2 * lanes`` results are held at a time.
    lanes : int
        ``Device.lanes`` of the kernel's device.
    task_evaluations : int
        Most evaluations of one task, where it can be cut.
    timeout_s : float
        Seconds to wait for one task.

    Yields
    ------
    Result
        In order of submission (what a paused task left over is submitted before untouched work).
        ``i`` indexes the caller's tuples; ``pause`` is always None.

    Raises
    ------
    UsageError
        An argument is out of range.
    DeviceError
        A task failed, or did not end in time.

    Notes
    -----
    Closing the generator, or an exception in its consumer, cancels the tasks that have not started
    and waits for those that have, so that the window may be freed afterwards.
    """
    yield from run_pieces(
        kernel,
        window,
        task_stream,
        [whole(start, end)],
        room=room,
        lanes=lanes,
        task_evaluations=task_evaluations,
        timeout_s=timeout_s,
    )


def run_pieces(
    kernel: Kernel,
    window: WindowBuffer,
    task_stream: Sequence[np.ndarray],
    pieces: Sequence[Piece],
    *,
    room: int,
    lanes: int,
    task_evaluations: int = TASK_EVALUATIONS,
    timeout_s: float = TIMEOUT_S,
) -> Generator[Result, None, None]:
    """Run several range joins of the same tuples, as :func:`run_task` does one.

    ``pieces`` have no empty ranges; everything else is as for :func:`run_task`.
    """
    if room < kernel.min_room:
        raise UsageError(f"room must be at least {kernel.min_room} pairs, not {room!r}")
    _check(lanes, task_evaluations)
    fresh = (part for piece in pieces for part in cut(piece, lanes, task_evaluations))
    resumed: list[Piece] = []
    results = _fly(
        kernel,
        window,
        task_stream,
        lambda: resumed.pop() if resumed else next(fresh, None),
        room=room,
        mode=Mode.PAIRS,
        lanes=lanes,
        timeout_s=timeout_s,
    )
    with closing(results):
        for piece, result in results:
            if result.pause is not None:
                stop = result.pause
                resumed += piece.rest(stop)
            yield replace(result, i=piece.rebased(result.i), pause=None)


def fold_task(
    kernel: Kernel,
    window: WindowBuffer,
    task_stream: Sequence[np.ndarray],
    start: np.ndarray,
    end: np.ndarray,
    *,
    mode: Mode,
    lanes: int,
    task_evaluations: int = TASK_EVALUATIONS,
    timeout_s: float = TIMEOUT_S,
    on_result: Callable[[Result], None] | None = None,
) -> Result:
    """Run the aggregates of a range join on all lanes of a device.

    Parameters
    ----------
    mode : Mode
        Not PAIRS, and one of those that the kernel was opened for.
    on_result : callable, optional
        Called with the result of each task, in order of submission.
    kernel, window, task_stream, start, end, lanes, task_evaluations, timeout_s
        As for :func:`run_task`.

    Returns
    -------
    Result
        ``folds`` has an element for each of the caller's tuples: the aggregates of a tuple whose
        range was cut are merged exactly, sums of floats in order of positions. ``counters`` are
        the sums over all tasks.

    Raises
    ------
    UsageError
        An argument is out of range.
    DeviceError
        A task failed, or did not end in time. As for :func:`run_task`, none is left running.
    """
    merged, counters = Merged(mode, len(start)), Counter()
    for piece, result in fold_pieces(
        kernel,
        window,
        task_stream,
        [whole(start, end)],
        mode=mode,
        lanes=lanes,
        task_evaluations=task_evaluations,
        timeout_s=timeout_s,
    ):
        assert result.folds is not None
        merged.add(piece.rows, result.folds)
        counters.update(result.counters)
        if on_result is not None:
            on_result(result)
    none = np.zeros(0, np.uint32)
    return Result(none, none, None, counters, merged.folds())


def fold_pieces(
    kernel: Kernel,
    window: WindowBuffer,
    task_stream: Sequence[np.ndarray],
    pieces: Sequence[Piece],
    *,
    mode: Mode,
    lanes: int,
    task_evaluations: int = TASK_EVALUATIONS,
    timeout_s: float = TIMEOUT_S,
) -> Generator[tuple[Piece, Result], None, None]:
    """Run the aggregates of several range joins of the same tuples.

    ``pieces`` have no empty ranges; everything else is as for :func:`fold_task`.

    Yields
    ------
    Piece, Result
        What a task was for, and its aggregates.
    """
    if mode is Mode.PAIRS:
        raise UsageError("pairs are not folded; use run_task for them")
    _check(lanes, task_evaluations)
    fresh = (part for piece in pieces for part in cut(piece, lanes, task_evaluations))
    results = _fly(
        kernel,
        window,
        task_stream,
        lambda: next(fresh, None),
        room=kernel.min_room,
        mode=mode,
        lanes=lanes,
        timeout_s=timeout_s,
    )
    with closing(results):
        for piece, result in results:
            if result.folds is None:
                raise DeviceError(f"a task for {mode.value} came back without its aggregates")
            yield piece, result


def _check(lanes: int, task_evaluations: int) -> None:
    if lanes < 1:
        raise UsageError(f"lanes must be at least 1, not {lanes!r}")
    if task_evaluations < 1:
        raise UsageError(f"task_evaluations must be at least 1, not {task_evaluations!r}")


def _fly(
    kernel: Kernel,
    window: WindowBuffer,
    task_stream: Sequence[np.ndarray],
    following: Callable[[], Piece | None],
    *,
    room: int,
    mode: Mode,
    lanes: int,
    timeout_s: float,
) -> Generator[tuple[Piece, Result], None, None]:
    """Keep two tasks per lane in flight; results in order of submission.

    ``following`` gives the next piece, None where there is none now. Closing the generator ends
    as :func:`run_task` says.
    """
    stream = [np.asarray(column) for column in task_stream]
    flying: deque[tuple[Piece, Future[Result]]] = deque()
    try:
        while True:
            while len(flying) < 2 * lanes:
                piece = following()
                if piece is None:
                    break
                if len(piece.rows) == 0:
                    continue
                task = Task([c[piece.rows] for c in stream], piece.start, piece.end, room, mode)
                flying.append((piece, kernel.submit(window, task)))
            if not flying:
                return
            piece, future = flying.popleft()
            try:
                result = future.result(timeout_s)
            except FutureTimeoutError as cause:
                if future.done():
                    raise
                flying.appendleft((piece, future))
                raise DeviceError(_late(piece, timeout_s)) from cause
            yield piece, result
    finally:
        running = [future for _, future in flying if not future.cancel()]
        wait(running, timeout_s)


def _late(piece: Piece, timeout_s: float) -> str:
    evaluations = int((piece.end - piece.start).sum())
    return (
        f"a task of {len(piece.rows)} stream tuples (from number {piece.rows[0]} on) and "
        f"{evaluations} evaluations did not end within {timeout_s:g} s: the device hangs, or the "
        "task is too large for it; pass a smaller task_evaluations or a longer timeout_s"
    )
